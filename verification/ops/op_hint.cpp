#include "verification/ops/op_hint.hpp"

#include "verification/compare/hint.hpp"

namespace zeroproof::verification {
namespace {

double as_number(const OpSetting& setting) {
  return std::visit([](auto value) { return static_cast<double>(value); }, setting.value);
}

}  // namespace

std::string op_hint(const Op& op, std::size_t k, const OpCall& pristine, const OpCall& reference,
                    const OpCall& candidate) {
  Evidence evidence;
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

}  // namespace zeroproof::verification
