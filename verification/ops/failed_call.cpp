#include "verification/ops/failed_call.hpp"

#include <algorithm>
#include <cstdio>

#include "verification/compare/compare.hpp"
#include "verification/compare/hint.hpp"
#include "verification/compare/wrong_formulas.hpp"

namespace zeroproof::verification {
namespace {

double as_number(const OpSetting& setting) {
  return std::visit([](auto value) { return static_cast<double>(value); }, setting.value);
}

/// A wrong result may have been made from the inputs, settings and other results.
std::string op_hint(const Op& op, std::size_t k, const OpCall& pristine, const OpCall& reference,
                    const OpCall& candidate, bool no_order) {
  HintEvidence evidence;
  evidence.no_order = no_order;
  evidence.want = reference.view(k);
  evidence.got = candidate.view(k);
  evidence.before = pristine.view(k);  // of an output: poison
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const Operand& operand = op.operands[i];
    const bool read = operand.access != Access::out;
    if (read && i != k) evidence.others.push_back({"the input " + operand.name, pristine.view(i)});
    if (operand.access != Access::in && i != k)
      evidence.others.push_back({"the result " + operand.name, reference.view(i)});
  }
  if (op.settings) {
    for (const OpSetting& setting : op.settings(pristine))
      evidence.factors.push_back({setting.name, as_number(setting)});
  }
  return hint(evidence);
}

}  // namespace

std::string shape_text(const Op& op, const CallShape& shape) {
  const auto variant = static_cast<std::size_t>(shape.variant), listed = op.variants.size();
  return "numel " + std::to_string(shape.numel) + ", offset " + std::to_string(shape.offset) +
         ", variant " + op.variants[variant % listed] +
         (variant < listed ? "" : " with fewer steps") + ", threads " +
         std::to_string(shape.num_threads) + ", fill index " + std::to_string(shape.first_index) +
         ", seed " + std::to_string(shape.seed);
}

std::vector<std::pair<std::string, std::string>> inputs_at(const Op& op, const OpCall& call,
                                                           std::int64_t element) {
  std::vector<std::pair<std::string, std::string>> inputs;
  for (std::size_t k = 0; k < op.operands.size() && inputs.size() < 6; ++k) {
    const Operand& operand = op.operands[k];
    if (operand.access == Access::out || operand.per_element == 0) continue;
    const TensorView view = call.view(k);
    std::string text;
    for (std::int64_t j = 0; j < std::min<std::int64_t>(operand.per_element, 4); ++j) {
      const std::uint64_t bits = element_bits(view, element * operand.per_element + j);
      text += (j > 0 ? " " : "") + show_bits(operand.shown_format(), bits);
    }
    inputs.emplace_back(operand.name, text + (operand.per_element > 4 ? " ..." : ""));
  }
  return inputs;
}

std::string exact_value(const Op& op, std::size_t operand, std::int64_t index,
                        const OpCall& pristine, const OpCall& candidate) {
  if (!op.bounds || op.operands[operand].dtype == DType::u32) return {};  // a flag has no bound
  const ElementBound bound = op.bounds(pristine, candidate)->of(operand, index);
  if (!bound.judged) return {};
  char text[40];
  std::snprintf(text, sizeof(text), "%.15Lg", bound.exact);
  return text;
}

std::vector<std::size_t> outputs_in_flow(const Op& op) {
  const auto is_moment = [&](std::size_t k) {
    const Content content = op.operands[k].content;
    return content == Content::moment || content == Content::second_moment;
  };
  std::vector<std::size_t> outputs;
  for (std::size_t k = 0; k < op.operands.size(); ++k) {
    if (op.operands[k].access != Access::in) outputs.push_back(k);
  }
  const auto last_moment = std::find_if(outputs.rbegin(), outputs.rend(), is_moment).base();
  std::stable_partition(outputs.begin(), last_moment,
                        [&](std::size_t k) { return op.operands[k].content != Content::weight; });
  return outputs;
}

std::vector<SavedTensor> saved_tensors(const Op& op, const OpCall& pristine,
                                       const OpCall& reference, const OpCall& candidate) {
  std::vector<SavedTensor> tensors;
  const auto keep = [&](const std::string& side, const OpCall& call, std::size_t k) {
    const TensorView view = call.view(k);
    const auto* bytes = static_cast<const std::byte*>(view.data);
    tensors.push_back(
        {side + "." + op.operands[k].name, view.dtype, {bytes, bytes + view.num_bytes()}});
  };
  for (std::size_t k = 0; k < op.operands.size(); ++k) {
    const Access access = op.operands[k].access;
    if (access != Access::out) keep("input", pristine, k);
    if (access == Access::in) continue;
    keep("reference", reference, k);
    keep("candidate", candidate, k);
  }
  return tensors;
}

void OpHints::look(const Op& op, std::size_t k, std::int64_t differing, const OpCall& pristine,
                   const OpCall& reference, const OpCall& candidate, bool no_order) {
  constexpr std::int64_t more =
      4;  // a sweep has hundreds of calls, and a hint costs as much as a few of them
  Look& last = looks_[op.operands[k].name];
  if (differing < more * last.differing) return;
  last = {differing, op_hint(op, k, pristine, reference, candidate, no_order)};
}

void OpHints::look(const Op& op, const OpCall& pristine, const OpCall& candidate) {
  if (!op.wrong_formulas || (formulas_ && formulas_->empty())) return;
  const auto found = op.wrong_formulas(pristine, candidate);
  if (!found) return;
  if (!formulas_) formulas_ = found;
  std::erase_if(*formulas_, [&](const std::string& formula) {
    return std::ranges::find(*found, formula) == found->end();
  });
}

std::string OpHints::of(const std::string& operand) const {
  const auto look = looks_.find(operand);
  const std::string hint = look == looks_.end() ? "" : look->second.hint;
  const std::string formulas = formulas_ ? as_if(*formulas_) : "";
  return hint + (hint.empty() || formulas.empty() ? "" : "; ") + formulas;
}

}  // namespace zeroproof::verification
