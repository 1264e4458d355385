#include "verification/exchange/judged_call.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "common/base/error.hpp"
#include "verification/compare/compare.hpp"
#include "verification/config/nearest.hpp"
#include "verification/dialects/identify.hpp"
#include "verification/report/format.hpp"

namespace zeroproof::verification {
namespace {

/// Results of a program: bytes for every output that could be read.
using Results = std::map<std::string, std::vector<std::byte>>;

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

/// Reads what was asked for; appends a line for everything that is not as it was asked.
Results read_results(const CallChoice& choice, const std::string& path, std::string& complaints) {
  const SafetensorsReader reader = SafetensorsReader::open(path);
  Results results;
  std::vector<std::string> wanted_names;
  for (const Operand& operand : choice.op->operands) {
    if (operand.access == Access::in) continue;
    const SafeTensorSpec wanted = wanted_output(operand, choice.shape.numel);
    wanted_names.push_back(wanted.name);
    const SafeTensor* got = reader.find(wanted.name);
    if (got == nullptr) {
      complaints += "  " + wanted.name + " is missing\n";
    } else if (got->dtype != wanted.dtype) {
      complaints += fmt::format("  {} is {}, wanted {}\n", wanted.name, name(got->dtype), name(wanted.dtype));
    } else if (got->shape != wanted.shape) {
      complaints += fmt::format("  {} has shape {}, wanted {}\n", wanted.name, shape_text(got->shape),
                                shape_text(wanted.shape));
    } else {
      std::vector<std::byte>& bytes = results[operand.name];
      bytes.resize(static_cast<std::size_t>(got->num_bytes()));
      if (!bytes.empty()) reader.read(*got, 0, bytes);
    }
  }
  std::string extras;
  std::size_t count = 0;
  for (const SafeTensor& tensor : reader.header().tensors) {
    if (std::ranges::find(wanted_names, tensor.name) != wanted_names.end()) continue;
    if (++count <= 3) extras += (extras.empty() ? "  " : ", ") + shown_name(tensor.name);
  }
  if (count > 3) extras += fmt::format(" and {} more", count - 3);
  if (count > 0) complaints += extras + (count == 1 ? " was not asked for\n" : " were not asked for\n");
  return results;
}

double setting(const std::vector<OpSetting>& settings, const std::string& name) {
  const auto found = std::ranges::find(settings, name, &OpSetting::name);
  ZP_CHECK(found != settings.end(), ErrorCode::internal, "an update has no setting " + name,
           "a dialect needs it", "report it");
  return std::visit([](auto value) { return static_cast<double>(value); }, found->value);
}

/// True for the updates that dialects are known of.
bool has_dialects(const Op& op) {
  return op.name == "adamw_update" || op.name == "adam_update" || op.name == "sgd_update";
}

/// The call as a step of an optimizer. `results` has what came out; a buffer that is not there is empty.
RecordedStep step_of(const CallChoice& choice, const OpCall& call, const Results& results) {
  const std::vector<OpSetting> settings = choice.op->settings(call);
  RecordedStep step;
  DialectHyper& h = step.hyper;
  h.rule = choice.op->name == "adamw_update"  ? UpdateRule::adamw
           : choice.op->name == "adam_update" ? UpdateRule::adam
                                              : UpdateRule::sgd;
  h.lr = setting(settings, "lr");
  h.beta1 = setting(settings, "beta1");
  h.beta2 = setting(settings, "beta2");
  h.eps = setting(settings, "eps");
  h.weight_decay = setting(settings, "weight_decay");
  h.t = static_cast<std::int64_t>(setting(settings, "t"));
  h.bias_correction = setting(settings, "bias_correction") != 0;
  h.amsgrad = setting(settings, "amsgrad") != 0;
  h.maximize = setting(settings, "maximize") != 0;
  h.momentum = setting(settings, "momentum");
  h.dampening = setting(settings, "dampening");
  h.nesterov = setting(settings, "nesterov") != 0;
  step.is_first = h.rule == UpdateRule::sgd && h.t == 1;
  StepTensor tensor;
  const auto buffer = [](StepState& state, const std::string& name) -> std::vector<float>& {
    return name == "master"           ? state.master
           : name == "exp_avg"        ? state.exp_avg
           : name == "exp_avg_sq"     ? state.exp_avg_sq
           : name == "max_exp_avg_sq" ? state.max_exp_avg_sq
                                      : state.momentum_buffer;
  };
  for (std::size_t k = 0; k < choice.op->operands.size(); ++k) {
    const Operand& operand = choice.op->operands[k];
    const Span<const float> values = call.in<float>(k);
    if (operand.access == Access::in) {
      tensor.grad.assign(values.begin(), values.end());
      continue;
    }
    buffer(tensor.before, operand.name).assign(values.begin(), values.end());
    const auto got = results.find(operand.name);
    if (got == results.end()) continue;
    std::vector<float>& after = buffer(tensor.after, operand.name);
    after.resize(got->second.size() / sizeof(float));
    if (!after.empty()) std::memcpy(after.data(), got->second.data(), got->second.size());
  }
  step.tensors.push_back(std::move(tensor));
  return step;
}

const Dialect& chosen_dialect(const CallChoice& choice, const RecordedStep& step, const std::string& name) {
  std::vector<std::string> names;
  for (const Dialect& dialect : all_dialects()) names.push_back(dialect.name);
  const Dialect* dialect = find_dialect(name);
  ZP_CHECK(dialect != nullptr, ErrorCode::config, "'" + name + "' is no dialect",
           "there is nothing to judge by", suggestion(name, names, "zeroproof explain dialects lists them"));
  ZP_CHECK(dialect->takes(step.hyper), ErrorCode::config, name + " does not compute " + choice.text(),
           "the library has no such rule or option", "choose another dialect, or generate another variant");
  return *dialect;
}

/// The results that a dialect has, written over those of the reference.
void compute_dialect(const CallChoice& choice, const std::string& name, OpCall& expected) {
  ZP_CHECK(has_dialects(*choice.op), ErrorCode::config, "--dialect does not apply to " + choice.op->name,
           "dialects are those of adamw_update, adam_update and sgd_update", "leave the flag out");
  const OpCall call(*choice.op, choice.shape);
  const RecordedStep step = step_of(choice, call, {});
  const Dialect& dialect = chosen_dialect(choice, step, name);
  UpdateTensors tensors;
  expected = call.fresh();
  for (std::size_t k = 0; k < choice.op->operands.size(); ++k) {
    const Operand& operand = choice.op->operands[k];
    const Span<float> values = expected.get<float>(k);
    if (operand.access == Access::in) tensors.grad = values;
    if (operand.name == "master") tensors.master = values;
    if (operand.name == "exp_avg") tensors.exp_avg = values;
    if (operand.name == "exp_avg_sq") tensors.exp_avg_sq = values;
    if (operand.name == "max_exp_avg_sq") tensors.max_exp_avg_sq = values;
    if (operand.name == "momentum_buffer") tensors.momentum_buffer = values;
  }
  update(dialect, step.hyper, step.is_first, tensors);
}

/// One element of every input that has one there.
std::string inputs_at(const CallChoice& choice, std::int64_t element) {
  const OpCall call(*choice.op, choice.shape);
  std::string text;
  for (std::size_t k = 0; k < choice.op->operands.size(); ++k) {
    const Operand& operand = choice.op->operands[k];
    if (operand.access == Access::out || operand.per_element == 0) continue;
    const std::uint64_t bits = element_bits(call.view(k), element * operand.per_element);
    text += fmt::format("  input   before.{} {}\n", operand.name, show_bits(operand.dtype, bits));
  }
  return text;
}

/// Lines about every output that differs; "" if none does.
std::string differences(const CallChoice& choice, const OpCall& expected, Results& results,
                        const std::string& who) {
  std::string text;
  for (std::size_t k = 0; k < choice.op->operands.size(); ++k) {
    const Operand& operand = choice.op->operands[k];
    const auto got = results.find(operand.name);
    if (got == results.end()) continue;
    const TensorView want = expected.view(k);
    const Comparison found = compare(want, {got->second.data(), operand.dtype, want.numel}, 0, want.numel);
    if (!found.first) continue;
    const bool first = text.empty();
    text += fmt::format("  after.{} differs in {} of {} elements, first [{}]: got {} want {} ({})\n",
                        operand.name, found.differing, found.compared, found.first->index,
                        show_bits(operand.dtype, found.first->candidate_bits),
                        show_bits(operand.dtype, found.first->reference_bits), who);
    if (first && operand.per_element > 0) text += inputs_at(choice, found.first->index / operand.per_element);
  }
  return text;
}

/// Whose results these are, if all buffers are there.
std::string owner(const CallChoice& choice, const Results& results) {
  const OpCall call(*choice.op, choice.shape);
  const RecordedStep step = step_of(choice, call, results);
  const Identification found = identify(step);
  if (!found.named()) return "  they are those of no dialect that is known (zeroproof explain dialects)\n";
  std::string names;
  for (const std::string& name : shown_names(found.fits)) names += (names.empty() ? "" : ", ") + name;
  return "  they are those of " + names + "\n";
}

}  // namespace

JudgedCall judge_call(const std::string& inputs, const std::string& outputs, const std::string& dialect) {
  const CallChoice choice = read_call(inputs);
  OpCall expected = reference_results(choice);
  if (!dialect.empty()) compute_dialect(choice, dialect, expected);
  std::string complaints;
  Results results = read_results(choice, outputs, complaints);
  const bool complete = complaints.empty();
  const std::string who = dialect.empty() ? "the reference" : dialect;
  complaints += differences(choice, expected, results, who);
  if (complaints.empty()) return {true, "pass " + choice.text() + ": the bits of " + who + "\n"};
  if (complete && has_dialects(*choice.op) && choice.shape.numel > 0) complaints += owner(choice, results);
  return {false, "FAIL " + choice.text() + "\n" + complaints};
}

}  // namespace zeroproof::verification
