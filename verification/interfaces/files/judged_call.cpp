#include "verification/interfaces/files/judged_call.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "common/base/error.hpp"
#include "verification/cases/config/nearest.hpp"
#include "verification/compare/compare.hpp"
#include "verification/compare/wrong_formulas.hpp"
#include "verification/interfaces/files/dialect_call.hpp"
#include "verification/ops/bound_ratio.hpp"
#include "verification/ops/failed_call.hpp"
#include "verification/report/format.hpp"
#include "verification/tools/identify/identify.hpp"

namespace zeroproof::verification {
namespace {

/// Results of a program: bytes for every output that could be read.
using Results = std::map<std::string, std::vector<std::byte>>;

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

/// Reads the expected outputs; appends a line for every deviation from the request.
Results read_results(const CallChoice& choice, const std::string& path, std::string& complaints) {
  const SafetensorsReader reader = SafetensorsReader::open(path);
  Results results;
  std::vector<std::string> wanted_names;
  for (const Operand& operand : choice.op->operands) {
    if (operand.access == Access::in) continue;
    const SafeTensorSpec wanted = wanted_output(operand, choice);
    wanted_names.push_back(wanted.name);
    const SafeTensor* got = reader.find(wanted.name);
    if (got == nullptr) {
      complaints += "  " + wanted.name + " is missing\n";
    } else if (got->dtype != wanted.dtype) {
      complaints +=
          fmt::format("  {} is {}, wanted {}\n", wanted.name, name(got->dtype), name(wanted.dtype));
    } else if (got->shape != wanted.shape) {
      complaints += fmt::format("  {} has shape {}, wanted {}\n", wanted.name,
                                shape_text(got->shape), shape_text(wanted.shape));
    } else {
      std::vector<std::byte>& bytes = results[operand.name];
      bytes.resize(got->num_bytes());
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
  if (count > 0)
    complaints += extras + (count == 1 ? " is not an output of the call\n"
                                       : " are not outputs of the call\n");
  return results;
}

/// The call as a step of an optimizer, with the buffers of `results`; a missing buffer is empty.
RecordedStep step_of(const CallChoice& choice, const OpCall& call, const Results& results) {
  RecordedStep step;
  step.hyper = hyper_of_call(*choice.op, call);
  const DialectHyper& h = step.hyper;
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

/// The dialect's results, in place of those of the reference.
OpCall dialect_results(const CallChoice& choice, const std::string& name) {
  ZP_CHECK(has_dialects(*choice.op), ErrorCode::config,
           "--dialect does not apply to " + choice.op->name,
           "dialects are those of adamw_update, adam_update and sgd_update", "leave the flag out");
  const Dialect& dialect = dialect_named(name);
  OpCall call(*choice.op, choice.shape);
  ZP_CHECK(dialect.takes(hyper_of_call(*choice.op, call)), ErrorCode::config,
           name + " does not compute " + choice.text(), "the library has no such rule or option",
           "choose another dialect, or generate another variant");
  compute_dialect(dialect, *choice.op, call);
  return call;
}

std::string inputs_text(const CallChoice& choice, std::int64_t element) {
  std::string text;
  for (const auto& [name, value] : inputs_at(*choice.op, OpCall(*choice.op, choice.shape), element))
    text += fmt::format("  input   before.{} {}\n", name, value);
  return text;
}

/// One line per output that differs from `expected`; "" if none does. `how`: "differs".
std::string differences(const CallChoice& choice, const OpCall& expected, Results& results,
                        const std::string& how, const std::string& who) {
  std::string text;
  for (std::size_t k = 0; k < choice.op->operands.size(); ++k) {
    const Operand& operand = choice.op->operands[k];
    const auto got = results.find(operand.name);
    if (got == results.end()) continue;
    const TensorView want = expected.view(k);
    const Comparison found =
        compare(want, {got->second.data(), operand.dtype, want.numel}, 0, want.numel);
    if (!found.first) continue;
    const bool first = text.empty();
    const DType format = operand.shown_format();
    text += fmt::format("  after.{} {} in {} of {} elements, first [{}]: got {} want {} ({})\n",
                        operand.name, how, found.differing, found.compared, found.first->index,
                        show_bits(format, found.first->candidate_bits),
                        show_bits(format, found.first->reference_bits), who);
    if (first && operand.per_element > 0)
      text += inputs_text(choice, found.first->index / operand.per_element);
  }
  return text;
}

/// The dialects with these results, if all buffers are present.
std::string owner(const CallChoice& choice, const Results& results) {
  const OpCall call(*choice.op, choice.shape);
  const RecordedStep step = step_of(choice, call, results);
  const Identification found = identify(step);
  if (!found.named()) return "  they match no known dialect (zeroproof explain dialects)\n";
  std::string names;
  for (const std::string& name : shown_names(found.fits))
    names += (names.empty() ? "" : ", ") + name;
  return "  they match " + names + "\n";
}

/// The call with the program's results, which are all present.
OpCall call_with(const CallChoice& choice, const Results& results) {
  const OpCall pristine(*choice.op, choice.shape);
  OpCall got = pristine.fresh();
  for (std::size_t k = 0; k < choice.op->operands.size(); ++k) {
    const auto bytes = results.find(choice.op->operands[k].name);
    if (bytes == results.end() || bytes->second.empty()) continue;
    std::memcpy(got.view(k).data, bytes->second.data(), bytes->second.size());
  }
  return got;
}

/// The bound of any legal order, and these results. `illegal`: those that no legal order has, the
/// others as expected.
BoundRatio weighed(const CallChoice& choice, const OpCall& expected, const Results& results,
                   Results& illegal, bool fp32_powers) {
  const OpCall pristine(*choice.op, choice.shape);
  OpCall wrong = expected.copy();
  const BoundRatio ratio =
      bound_ratio(*choice.op, pristine, expected, call_with(choice, results), &wrong, fp32_powers);
  for (std::size_t k = 0; k < choice.op->operands.size(); ++k) {
    if (choice.op->operands[k].access == Access::in) continue;
    const TensorView view = wrong.view(k);
    const auto* bytes = static_cast<const std::byte*>(view.data);
    illegal[choice.op->operands[k].name].assign(bytes, bytes + view.num_bytes());
  }
  return ratio;
}

std::string in_two_lines(std::string text) {
  const std::size_t clause = text.find("; ");
  return clause == std::string::npos ? text : text.replace(clause, 2, ",\n  ");
}

}  // namespace

JudgedCall judge_call(const std::string& inputs, const std::string& outputs,
                      const std::string& dialect, const Acceptance& accepted) {
  const bool any_order = accepted.any_order;
  ZP_CHECK(dialect.empty() || !any_order, ErrorCode::config,
           "--dialect and --accept any-order were both given", "they exclude each other",
           "leave out one of them");
  const CallChoice choice = read_call(inputs);
  ZP_CHECK(!accepted.fp32_powers || choice.op->corrects_bias, ErrorCode::config,
           "--accept fp32-powers does not apply to " + choice.op->name,
           "it is no update with a bias correction", "use --accept any-order");
  const OpCall expected =
      dialect.empty() ? reference_results(choice) : dialect_results(choice, dialect);
  std::string complaints;
  Results results = read_results(choice, outputs, complaints);
  const bool complete = complaints.empty();
  const std::string who = dialect.empty() ? "the reference" : dialect;
  const std::string differing = differences(choice, expected, results, "differs", who);
  if (complete && differing.empty())
    return {true, "pass " + choice.text() + ": the bits of " + who + "\n"};
  std::string shown = differing, explained;
  if (complete && choice.op->exactness == Exactness::bounded) {
    const double ratio = choice.op->contract_ratio(call_with(choice, results));
    if (ratio <= 1)
      return {true,
              fmt::format("pass {}: other bits than {}, an error {:.3g} of the contract's bound\n",
                          choice.text(), who, ratio)};
    explained = fmt::format("  the error is {:.3g} times the contract's bound\n", ratio);
  }
  if (complete && choice.op->bounds) {
    Results illegal;
    const BoundRatio ratio = weighed(choice, expected, results, illegal, accepted.fp32_powers);
    const std::string judged = "  judged: " + to_string(ratio.judged) + "\n";
    std::string statistic;
    if (any_order && choice.op->statistic) {
      const auto shares = choice.op->statistic();
      shares->add(OpCall(*choice.op, choice.shape), call_with(choice, results));
      statistic = shares->problem();
    }
    if (any_order && ratio.legal() && statistic.empty())
      return {true, fmt::format(
                        "pass {}: other bits than {}, and at most {:.3g} of the bound of any legal "
                        "order, in {}\n{}",
                        choice.text(), who, ratio.worst, ratio.buffer, judged)};
    if (any_order) shown = differences(choice, expected, illegal, "is in no legal order", who);
    explained += "  " + in_two_lines(statistic.empty() ? to_string(ratio) : statistic) + "\n" +
                 (any_order ? judged : "");
  } else if (complete && !choice.op->one_result.empty()) {
    explained = "  in no legal order: every order gives the same result, because " +
                choice.op->one_result + "\n";
  }
  if (complete && choice.op->wrong_formulas) {
    const OpCall pristine(*choice.op, choice.shape);
    const auto formulas = choice.op->wrong_formulas(pristine, call_with(choice, results));
    if (formulas && !formulas->empty()) explained += "  " + as_if(*formulas) + "\n";
  }
  if (complete && has_dialects(*choice.op) && choice.shape.numel > 0)
    explained += owner(choice, results);
  return {false, "FAIL " + choice.text() + "\n" + complaints + shown + explained};
}

}  // namespace zeroproof::verification
