#include "verification/tools/train/dump/expected.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <limits>
#include <set>
#include <utility>

#include "common/base/error.hpp"
#include "verification/cases/config/nearest.hpp"
#include "verification/cli/program/contract_version.hpp"
#include "verification/cli/program/temporary_file.hpp"
#include "verification/compare/hint.hpp"
#include "verification/compare/judge/training.hpp"
#include "verification/model/recorded.hpp"
#include "verification/report/format.hpp"
#include "verification/tools/train/dump/dump.hpp"
#include "verification/tools/train/dump/legal_run.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::size_t most_hints = 20'000;  // names that are searched for the nearest one

/// The other program's file under the names of a dump.
class Theirs {
 public:
  Theirs(const Experiment& experiment, const DumpPlan& plan, const std::string& file,
         const PhaseNames& names)
      : plan_(plan),
        names_(names),
        last_step_(experiment.config().steps),
        reader_(SafetensorsReader::open(file, workload::recording_limits())) {
    require_contract();
    find_tensors();
    check_all_known();
  }

  const SafetensorsReader& reader() const { return reader_; }

  /// Every tensor of the buffers and steps of which the file has at least one.
  std::vector<DumpTensor> wanted() const {
    std::vector<DumpTensor> tensors;
    for (std::int64_t step = 0; step <= last_step_; ++step) {
      for (DumpTensor& tensor : plan_.tensors({step})) {
        if (there_.count({tensor.buffer, step}) == 0) continue;
        // The run begins with the state of step 0; param is computed from it.
        if (step == 0 && plan_.buffers()[tensor.buffer].id != BufferId::param_full) continue;
        tensors.push_back(std::move(tensor));
      }
    }
    return tensors;
  }

  bool has_start(std::size_t buffer) const { return there_.count({buffer, 0}) > 0; }

  const SafeTensor* find(const DumpTensor& tensor) const {
    const auto name = name_of(tensor);
    return name ? reader_.find(*name) : nullptr;
  }

  std::vector<std::string> ignored() const {
    std::vector<std::string> found;
    for (const SafeTensor& tensor : reader_.header().tensors) {
      if (!used_.count(&tensor)) found.push_back(tensor.name);
    }
    return found;
  }

 private:
  /// A file without a contract version may have any arithmetic; one of another contract has other
  /// bits.
  void require_contract() const {
    const auto found = reader_.metadata().find("contract_version");
    const std::string ours = std::to_string(contract_version);
    ZP_CHECK(found == reader_.metadata().end() || found->second == ours, ErrorCode::config,
             reader_.label() + " is of contract " +
                 (found == reader_.metadata().end() ? "" : shown_name(found->second)) +
                 ", this program of contract " + ours,
             "its bits have another meaning",
             "compute it with this version, or leave contract_version out of the metadata");
  }

  std::optional<std::string> name_of(const DumpTensor& tensor) const {
    const DumpBuffer& buffer = plan_.buffers()[tensor.buffer];
    return names_.theirs(
        buffer, tensor.step,
        tensor.parameter < 0 ? "" : plan_.layout().tensors()[tensor.parameter].name, last_step_);
  }

  /// Of step 0 only the buffers that a run can begin with are accepted.
  bool can_be(const DumpTensor& tensor) const {
    if (tensor.step > 0) return true;
    const DumpBuffer& buffer = plan_.buffers()[tensor.buffer];
    // Scales and columns of the first state are computed from its masters.
    if (buffer.blocks != nullptr || buffer.id == BufferId::param_columns) return false;
    if (buffer.id == BufferId::grad_sum || buffer.id == BufferId::grad) return false;
    return buffer.per_parameter || buffer.id == BufferId::applied_steps ||
           buffer.id == BufferId::tensor_steps || buffer.id == BufferId::loss_scaler;
  }

  void find_tensors() {
    for (std::int64_t step = 0; step <= last_step_; ++step) {
      for (const DumpTensor& tensor : plan_.tensors({step})) {
        const SafeTensor* found = can_be(tensor) ? find(tensor) : nullptr;
        if (found == nullptr) continue;
        const auto [other, first] = used_.try_emplace(found, tensor.spec.name);
        ZP_CHECK(first, ErrorCode::config,
                 "tensor " + shown_name(found->name) + " of " + reader_.label() + " is both " +
                     other->second + " and " + tensor.spec.name,
                 "one tensor cannot be compared with two",
                 "give them different names with --phase-names");
        there_.emplace(tensor.buffer, step);
      }
    }
  }

  void check_all_known() const {
    for (const SafeTensor& tensor : reader_.header().tensors) {
      if (used_.count(&tensor) > 0 || names_.ignores(tensor.name)) continue;
      fail(ErrorCode::config,
           "tensor " + shown_name(tensor.name) + " of " + reader_.label() +
               " is not part of this run, whose steps are 1 to " + std::to_string(last_step_),
           "an unknown tensor cannot be compared", hint(tensor.name));
    }
  }

  std::string hint(const std::string& name) const {
    std::vector<std::string> known;
    for (std::int64_t step = 1; step <= last_step_ && known.size() < most_hints; ++step) {
      for (const DumpTensor& tensor : plan_.tensors({step})) {
        if (const auto theirs = name_of(tensor)) known.push_back(*theirs);
      }
    }
    const std::string near = nearest(name, known);
    return (near.empty() ? "" : "did you mean " + shown_name(near) + "? ") +
           "name it with --phase-names, or list it there under ignore";
  }

  const DumpPlan& plan_;
  const PhaseNames& names_;
  std::int64_t last_step_;
  SafetensorsReader reader_;
  std::map<const SafeTensor*, std::string> used_;         // by ours
  std::set<std::pair<std::size_t, std::int64_t>> there_;  // buffer and step
};

[[noreturn]] void refuse_start(const SafetensorsReader& reader, const std::string& ours,
                               const std::string& problem) {
  fail(ErrorCode::config, reader.label() + " has a step 0 whose " + ours + " " + problem,
       "the run cannot begin there", "complete it, or leave step 0 out");
}

/// Bytes of a tensor of step 0, which must be present and have the form of a dump.
std::vector<std::byte> start_bytes(const Theirs& theirs, const DumpTensor& tensor) {
  const SafeTensor* found = theirs.find(tensor);
  if (found == nullptr) refuse_start(theirs.reader(), tensor.spec.name, "is missing");
  if (found->dtype != tensor.spec.dtype || found->shape != tensor.spec.shape) {
    refuse_start(theirs.reader(), tensor.spec.name, "has another type or shape than in a dump");
  }
  std::vector<std::byte> bytes(found->num_bytes());
  theirs.reader().read(*found, 0, bytes);
  return bytes;
}

/// One number of a loss scaler's state of step 0, which must be valid for this run's scaler.
void take_scaler(const Theirs& theirs, const std::string& name, std::int32_t value,
                 const LossScalerConfig& config, LossScalerState& state) {
  const auto refuse = [&](const std::string& why) {
    refuse_start(theirs.reader(), name + ".0", "is " + std::to_string(value) + ", " + why);
  };
  if (name == "log2_loss_scale") {
    if (config.kind == LossScalerKind::none && value != 0) refuse("and the run has no loss scaler");
    if (config.kind == LossScalerKind::dynamic &&
        (value < config.log2_min || value > config.log2_max)) {
      refuse("and the run's scale is between 2^" + std::to_string(config.log2_min) + " and 2^" +
             std::to_string(config.log2_max));
    }
    state.log2_scale = value;
    return;
  }
  const bool tracker = name == "growth_tracker";
  const std::int32_t most = std::numeric_limits<std::int32_t>::max() - (tracker ? 1 : 0);
  if (value < 0 || value > most) refuse("and it counts from 0 to " + std::to_string(most));
  (tracker ? state.growth_tracker : state.hysteresis_left) = value;
}

/// Replaces the run's first state by step 0 of the file; returns the buffers that the file has.
std::vector<std::string> take_start(const Theirs& theirs, const DumpPlan& plan,
                                    const LossScalerConfig& scaler, Snapshot& state) {
  std::vector<std::string> taken;
  for (const DumpTensor& tensor : plan.tensors({0})) {
    const DumpBuffer& buffer = plan.buffers()[tensor.buffer];
    if (!theirs.has_start(tensor.buffer) || buffer.id == BufferId::param_full) continue;
    const std::vector<std::byte> bytes = start_bytes(theirs, tensor);
    if (std::vector<float>* flat = state.buffer(buffer.id)) {
      const TensorSlot& slot = plan.layout().tensors()[tensor.parameter];
      std::ranges::copy(bytes, std::as_writable_bytes(Span<float>(*flat)).begin() +
                                   slot.begin * static_cast<std::int64_t>(sizeof(float)));
    } else if (buffer.id == BufferId::loss_scaler) {
      std::int32_t value = 0;
      std::memcpy(&value, bytes.data(), sizeof(value));
      take_scaler(theirs, buffer.name, value, scaler, state.scaler);
    } else if (buffer.id == BufferId::tensor_steps) {
      std::ranges::copy(bytes,
                        std::as_writable_bytes(Span<std::uint64_t>(state.tensor_steps)).begin());
    } else {
      std::ranges::copy(
          bytes, std::as_writable_bytes(Span<std::int64_t>(&state.applied_steps, 1)).begin());
    }
    if (taken.empty() || taken.back() != buffer.name) taken.push_back(buffer.name);
  }
  return taken;
}

/// A likely cause of the first difference, from the expected numbers of the same parameter and of
/// the step before, as far as the file has them; "" if none is found.
std::string hint_of(const Experiment& experiment, const DumpPlan& plan, const Expectation& found,
                    const SafetensorsReader& ours, const Theirs& theirs) {
  for (std::size_t i = 0; i < found.tensors.size(); ++i) {
    const TensorDifference& difference = found.comparison.tensors[i];
    if (difference.equal()) continue;
    const bool compared = difference.match == TensorMatch::compared;
    if (!compared || !buffer_dtype(difference.first.dtype)) return "";
    const DumpTensor& tensor = found.tensors[i];
    Loaded want(ours, *ours.find(tensor.spec.name));
    Loaded got(theirs.reader(), *theirs.find(tensor));
    HintEvidence evidence;
    evidence.want = want.view();
    evidence.got = got.view();
    const DumpBuffer& buffer = plan.buffers()[tensor.buffer];
    if (buffer.id == BufferId::applied_steps || buffer.id == BufferId::tensor_steps)
      evidence.meaning = Meaning::count;
    evidence.factors = {
        {"the number of micro-batches", static_cast<double>(experiment.config().micro_batches)},
        {"the rate", experiment.config().optimizer.lr}};
    std::deque<Loaded> others;
    for (const DumpTensor& other : found.tensors) {
      const bool earlier = other.step == tensor.step - 1;
      if (other.parameter != tensor.parameter || (other.step != tensor.step && !earlier)) continue;
      const bool same = other.buffer == tensor.buffer;
      const SafeTensor& stored = *ours.find(other.spec.name);
      if ((same && !earlier) || !buffer_dtype(stored.dtype)) continue;
      TensorView view = others.emplace_back(ours, stored).view();
      if (same) evidence.before = view;
      evidence.others.push_back(
          {(earlier ? "the previous " : "") + plan.buffers()[other.buffer].name, view});
    }
    return hint(evidence);
  }
  return "";
}

}  // namespace

Expectation compare_expected(const Experiment& experiment, const DumpPlan& plan,
                             const std::string& file, const PhaseNames& names, bool any_order) {
  const Theirs theirs(experiment, plan, file, names);
  Expectation result;
  result.ignored = theirs.ignored();
  result.tensors = theirs.wanted();
  ZP_CHECK(!result.tensors.empty() && result.tensors.back().step > 0, ErrorCode::config,
           file + " has no tensor of a step of this run", "nothing would be compared",
           "name tensors as verify --dump does, or map their names with --phase-names");
  for (const DumpTensor& tensor : result.tensors) {
    if (result.steps.empty() || result.steps.back() != tensor.step)
      result.steps.push_back(tensor.step);
  }
  Snapshot start(experiment.initial_state());
  result.start = take_start(theirs, plan, experiment.scaler(), start);
  const FullState state = start.full();
  // Before anything is computed: settings without such bounds are refused.
  if (any_order) LegalRun(experiment, state, false);

  const TemporaryFile expected("the numbers that are compared with " + file + " are kept there");
  write_dump(experiment, plan, result.tensors, expected.path(), "", &state);
  const auto ours = SafetensorsReader::open(expected.path(), workload::recording_limits());
  std::vector<TensorPair> pairs;
  for (const DumpTensor& tensor : result.tensors) {
    pairs.push_back({tensor.spec.name, ours.find(tensor.spec.name), theirs.find(tensor)});
  }
  result.comparison = compare_sets(ours, theirs.reader(), pairs);
  result.rows = buffer_rows(plan, result.tensors, result.comparison);
  result.first = first_difference(plan, result.tensors, result.comparison);
  const std::string cause = hint_of(experiment, plan, result, ours, theirs);
  if (!cause.empty()) result.first += "hint      " + cause + "\n";
  if (!any_order) return result;
  const auto load = [&](const DumpTensor& tensor) -> std::unique_ptr<Loaded> {
    const SafeTensor* found = theirs.find(tensor);
    const bool fits =
        found != nullptr && found->dtype == tensor.spec.dtype && found->shape == tensor.spec.shape;
    return fits ? std::make_unique<Loaded>(theirs.reader(), *found) : nullptr;
  };
  result.legal = judge_legal(experiment, plan, result.tensors, result.comparison, state, load);
  result.beyond = buffer_rows(plan, result.tensors, result.legal->beyond);
  return result;
}

}  // namespace zeroproof::verification
