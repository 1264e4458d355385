// All values of a step as tables.

#include <algorithm>
#include <map>

#include "verification/case/step_scalar_names.hpp"
#include "verification/program/contract_text.hpp"
#include "verification/report/format.hpp"
#include "verification/report/paint.hpp"
#include "verification/trace/sections.hpp"

namespace zeroproof::verification {
namespace {

const char* explanation(Phase phase, const TraceSettings& settings) {
  switch (phase) {
    case Phase::prepare:
      return "R5: every scalar is computed in fp64 and rounded to fp32 once; beta1 and beta2 were rounded "
             "when the settings were read.";
    case Phase::reduce:
      return settings.stage == 0 ? "R11: leaves are added along one binary tree over the micro-batches; "
                                   "stage 0 then gives all of G to every rank."
                                 : "R11: leaves are added along one binary tree over the micro-batches; "
                                   "every rank gets G of what it owns.";
    case Phase::unscale:
      return "R6, R14: g1 = G * inv_scale takes off the loss scale and makes the mean; found_inf is an OR "
             "over all ranks.";
    case Phase::norm:
      return "R12: sums of squares of 1024 elements, added over ranks as integers: limb i weighs 2^(32 i - "
             "352); one root.";
    case Phase::clip:
      return "R12: clip_coef = fp32(min(1, max_norm / (N + 1e-6))), from fp64; g = g1 * clip_coef.";
    case Phase::update:
      return "R6: element by element, so an owner needs nothing from anybody [ZeRO:local]; t becomes "
             "applied_steps.";
    case Phase::cast:
      return "R8: master rounded to the parameter dtype, to nearest, ties to even; the master keeps what is "
             "lost here.";
    case Phase::gather:
      return "R6: the bytes of every shard travel to every rank; nothing is computed.";
  }
  return "";
}

/// By name: a rank that owns nothing has buffers without ranges too.
bool is_scalar(const TracedBuffer& buffer) {
  switch (buffer.id) {
    case BufferId::step_scalars:
    case BufferId::applied_steps:
    case BufferId::found_inf:
    case BufferId::loss_scaler:
    case BufferId::norm_limbs:
    case BufferId::grad_amax:
    case BufferId::grad_norm:
    case BufferId::clip_coef:
    case BufferId::tensor_steps:
      return true;
    default:
      return false;
  }
}

/// Ranks whose buffers hold the same elements with the same bits.
struct Holders {
  std::vector<int> ranks;
  const TracedBuffer* buffer;
};

std::vector<Holders> holders_of(const StepTrace& trace, Phase phase, BufferId id) {
  std::vector<Holders> all;
  for (std::size_t r = 0; r < trace.reference.size(); ++r) {
    for (const TracedBuffer& buffer : trace.reference[r].buffers) {
      if (buffer.phase != phase || buffer.id != id) continue;
      const auto same = std::find_if(all.begin(), all.end(), [&](const Holders& other) {
        return other.buffer->ranges == buffer.ranges && other.buffer->bytes == buffer.bytes;
      });
      if (same == all.end()) {
        all.push_back({{static_cast<int>(r)}, &buffer});
      } else {
        same->ranks.push_back(static_cast<int>(r));
      }
    }
  }
  return all;
}

/// Buffers of a phase in the order in which rank 0 exposes them.
std::vector<BufferId> buffers_of(const StepTrace& trace, Phase phase, bool scalars) {
  std::vector<BufferId> ids;
  for (const TracedBuffer& buffer : trace.reference.front().buffers) {
    if (buffer.phase == phase && is_scalar(buffer) == scalars) ids.push_back(buffer.id);
  }
  return ids;
}

/// Names of a scalar's words.
std::string word_name(BufferId id, std::int64_t word) {
  static constexpr const char* scaler[] = {"log2_scale", "growth_tracker", "hysteresis_left"};
  if (id == BufferId::step_scalars)
    return std::string(step_scalar_names[static_cast<std::size_t>(word % num_step_scalar_words)]);
  if (id == BufferId::loss_scaler) return "loss_scaler." + std::string(scaler[word]);
  if (id != BufferId::norm_limbs) return std::string(name(id));
  if (word == 21) return "nan_count";
  return word == 22 ? "inf_count" : "limb " + std::to_string(word);
}

/// Integers stay integers; the words of step scalars are floats, but for two flags.
DType word_dtype(const TracedBuffer& buffer, std::int64_t word) {
  const bool flag = word % num_step_scalar_words >= num_step_scalar_words - 2;
  return buffer.id == BufferId::step_scalars && !flag ? DType::fp32 : buffer.dtype;
}

std::string scalars_text(const StepTrace& trace, Phase phase) {
  std::vector<std::string> names;
  TraceColumn who{"on", {}};
  TraceColumn values{"value", {}};
  for (const BufferId id : buffers_of(trace, phase, true)) {
    for (const Holders& holders : holders_of(trace, phase, id)) {
      bool zeros_left_out = false;
      for (std::int64_t word = 0; word < holders.buffer->numel(); ++word) {
        const std::uint64_t bits = holders.buffer->bits(word);
        if (id == BufferId::norm_limbs && bits == 0) {
          zeros_left_out = true;
          continue;
        }
        names.push_back(word_name(id, word));
        who.cells.push_back(ranks_text(holders.ranks));
        values.cells.push_back(shown_value(bits, word_dtype(*holders.buffer, word)));
      }
      if (!zeros_left_out) continue;
      names.emplace_back("other limbs and counts");
      who.cells.push_back(ranks_text(holders.ranks));
      values.cells.emplace_back("0");
    }
  }
  return names.empty() ? "" : "\n" + table({"", names}, {who, values});
}

std::string elements_text(const StepTrace& trace, Phase phase) {
  const std::vector<BufferId> ids = buffers_of(trace, phase, false);
  if (ids.empty()) return "";
  const std::vector<std::int64_t> all = elements_of(trace.model.layout());
  const std::vector<std::string> all_names = element_names(trace.model.layout());
  // Buffers of a phase have the same holders, but in stage 0 bits could differ in one of them: rows are per rank set of
  // each.
  std::map<std::vector<int>, std::vector<TraceColumn>> groups;
  std::map<std::vector<int>, std::vector<std::string>> labels;
  for (const BufferId id : ids) {
    for (const Holders& holders : holders_of(trace, phase, id)) {
      TraceColumn column{std::string(name(id)), {}};
      std::vector<std::string> names;
      std::int64_t local = 0;
      for (const FlatRange& range : holders.buffer->ranges) {
        for (std::size_t e = 0; e < all.size(); ++e) {
          if (all[e] < range.begin || all[e] >= range.end) continue;
          names.push_back(all_names[e]);
          column.cells.push_back(
              shown_value(holders.buffer->bits(local + all[e] - range.begin), holders.buffer->dtype));
        }
        local += range.numel();
      }
      groups[holders.ranks].push_back(std::move(column));
      labels[holders.ranks] = names;
    }
  }
  std::string out;
  for (const auto& [ranks, columns] : groups) {
    const bool empty = labels[ranks].empty();
    out += "\n  " + ranks_text(ranks) +
           (empty ? (ranks.size() > 1 ? " own nothing\n" : " owns nothing\n") : "\n");
    if (!empty) out += table({"", labels[ranks]}, columns);
  }
  return out;
}

std::string heading(const StepTrace& trace) {
  const TraceSettings& s = trace.settings;
  std::string out = fmt::format(
      "One step of {}, stage {}, {} rank{}, {} micro-batch{}, {} parameters. Values: the reference's.\n",
      name(s.rule), s.stage, s.world_size, s.world_size == 1 ? "" : "s", s.micro_batches,
      s.micro_batches == 1 ? "" : "es", name(trace.param_dtype));
  out += "R13:";
  for (const TensorSlot& slot : trace.model.layout().tensors()) {
    out += fmt::format(" {} [{}, {})", slot.name, slot.begin, slot.begin + slot.numel);
  }
  out += fmt::format(" of {}; tensors start at multiples of 1024.\n", trace.model.layout().padded_numel());
  std::string owners = "Owners:";
  for (int rank = 0; rank < s.world_size; ++rank) {
    const std::vector<FlatRange> shard = trace.shards.shard(rank);
    owners += fmt::format(
        "{} rank {} {}", rank == 0 ? "" : ",", rank,
        shard.empty() ? "nothing" : fmt::format("[{}, {})", shard.front().begin, shard.back().end));
  }
  owners += s.stage == 0 ? "; in stage 0 every rank keeps everything." : ".";
  return out + wrapped({owners}, trace_columns, "");
}

}  // namespace

std::vector<std::int64_t> elements_of(const FlatLayout& layout) {
  std::vector<std::int64_t> elements;
  for (const TensorSlot& slot : layout.tensors()) {
    for (std::int64_t i = 0; i < slot.numel; ++i) elements.push_back(slot.begin + i);
  }
  return elements;
}

std::vector<std::string> element_names(const FlatLayout& layout) {
  std::vector<std::string> names;
  for (const std::int64_t element : elements_of(layout)) {
    std::string coordinates = layout.coordinates(element);
    coordinates.erase(std::remove(coordinates.begin(), coordinates.end(), ' '), coordinates.end());
    names.push_back(layout.tensors()[static_cast<std::size_t>(layout.tensor_at(element))].name + coordinates);
  }
  return names;
}

std::string trace_text(const StepTrace& trace, bool colour) {
  const Paint paint{colour};
  std::string out = heading(trace);
  for (const Phase phase : all_phases) {
    out += "\n" + paint("1", std::string(name(phase))) + "\n";
    out += wrapped({explanation(phase, trace.settings)}, trace_columns, "  ");
    if (phase == Phase::reduce) out += gradient_text(trace);
    out += scalars_text(trace, phase) + elements_text(trace, phase);
  }
  return out;
}

}  // namespace zeroproof::verification
