#include "verification/interfaces/python/src/extension/judged_op.hpp"

#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "common/base/error.hpp"
#include "reference/operations.hpp"
#include "verification/cases/config/nearest.hpp"
#include "verification/compare/compare.hpp"
#include "verification/compare/hint_rules.hpp"
#include "verification/interfaces/files/dialect_call.hpp"
#include "verification/interfaces/plugin/operations.hpp"

namespace zeroproof::python {
namespace {

using verification::CallBounds;
using verification::ElementBound;
using verification::Op;
using verification::OpCall;
using verification::OpExpectation;

constexpr const char* update_suffix = "_update";

/// A rule whose update is one operation. That of muon is several (R28).
bool is_rule(const std::string& name) {
  return std::ranges::any_of(
      update_rules, [&](const RuleTraits& rule) { return rule.name == name && !rule.matrices; });
}

const Op& base_op(const std::string& name) {
  const std::string full = is_rule(name) ? name + update_suffix : name;
  if (verification::is_plugin_operation(full)) return *verification::find_op(full);
  std::vector<std::string> names = verification::plugin_operations();
  for (const RuleTraits& rule : update_rules) {
    if (is_rule(std::string(rule.name))) names.emplace_back(rule.name);
  }
  fail(ErrorCode::config, "'" + name + "' is no operation that a callable can be judged on",
       "there is no reference for it", suggestion(name, names, "zproof.operations() returns them"));
}

std::size_t operand_named(const Op& op, const std::string& name) {
  for (std::size_t k = 0; k < op.operands.size(); ++k) {
    if (op.operands[k].name == name) return k;
  }
  fail(ErrorCode::internal, op.name + " has no operand " + name, "it is looked up by name",
       "report this as a defect");
}

/// The parameter that follows from the master of the call (R8).
void round_param(const Op& op, OpCall& call) {
  const Span<const float> master = call.in<float>(operand_named(op, "master"));
  const std::size_t param = operand_named(op, "param");
  if (op.operands[param].dtype == DType::bf16)
    return reference::cast_to_bf16({}, master, call.get<bf16>(param));
  reference::cast_to_fp16({}, master, call.get<fp16>(param));
}

/// Another order of operations leaves another master; the parameter is still that master, rounded once.
class BoundsWithParam final : public CallBounds {
 public:
  BoundsWithParam(const Op& op, const Op& base, const OpCall& pristine, const OpCall& candidate)
      : base_(base.bounds(pristine, candidate)),
        param_(operand_named(op, "param")),
        rounded_(std::make_shared<OpCall>(candidate.fresh())) {
    const std::size_t master = operand_named(op, "master");
    const TensorView from = candidate.view(master);
    if (from.numel > 0)
      std::memcpy(rounded_->view(master).data, from.data,
                  static_cast<std::size_t>(from.num_bytes()));
    round_param(op, *rounded_);
  }

  ElementBound of(std::size_t operand, std::int64_t index) override {
    if (operand != param_) return base_->of(operand, index);
    const TensorView want = rounded_->view(param_);
    const double value = verification::number(want.dtype, verification::element_bits(want, index));
    if (value == 0) return {0, 0, false, verification::ResultClasses::of(value)};
    return {value, 0, true};
  }

  std::vector<std::unique_ptr<CallBounds>> with_powers() const override {
    std::vector<std::unique_ptr<CallBounds>> all;
    for (std::unique_ptr<CallBounds>& base : base_->with_powers())
      all.push_back(std::unique_ptr<CallBounds>(new BoundsWithParam(std::move(base), *this)));
    return all;
  }

 private:
  BoundsWithParam(std::unique_ptr<CallBounds> base, const BoundsWithParam& other)
      : base_(std::move(base)), param_(other.param_), rounded_(other.rounded_) {}

  std::unique_ptr<CallBounds> base_;
  std::size_t param_;
  std::shared_ptr<OpCall> rounded_;  ///< of every pair of powers
};

Op with_param(const Op& base, DType dtype) {
  Op op = base;
  op.name = base.name + "_to_" + std::string(name(dtype));
  op.operands.push_back(verification::output("param", dtype));
  op.device = {};
  op.host_of = {};
  return op;
}

/// Operations with a param, created at first use; computing them needs a fixed address.
const Op& op_with_param(const Op& base, DType dtype) {
  static std::mutex mutex;
  static std::map<std::string, Op> made;
  const std::lock_guard<std::mutex> lock(mutex);
  const std::string key = base.name + " " + std::string(name(dtype));
  const auto found = made.find(key);
  if (found != made.end()) return found->second;
  Op& op = made[key] = with_param(base, dtype);
  op.reference = [&op, &base](OpCall& call) {
    base.reference(call);
    round_param(op, call);
  };
  op.host = op.reference;
  if (base.bounds) {
    op.bounds = [&op, &base](const OpCall& pristine, const OpCall& candidate) {
      return std::make_unique<BoundsWithParam>(op, base, pristine, candidate);
    };
  }
  return op;
}

class Expected final : public OpExpectation {
 public:
  Expected(const JudgedOp& judged, std::set<int> variants,
           std::shared_ptr<const OpExpectation> dialect)
      : judged_(judged), variants_(std::move(variants)), dialect_(std::move(dialect)) {}

  std::string name() const override { return dialect_ ? dialect_->name() : "the reference"; }
  std::string held_to() const override { return dialect_ ? dialect_->held_to() : "contract"; }
  bool covers(const Op&) const override { return !dialect_ || dialect_->covers(*judged_.base); }
  bool takes(const Op&, const OpCall& call) const override {
    return variants_.contains(call.variant()) &&
           (!dialect_ || dialect_->takes(*judged_.base, call));
  }
  void compute(const Op& op, OpCall& call) const override {
    if (!dialect_) return op.reference(call);
    dialect_->compute(*judged_.base, call);
    if (judged_.op != judged_.base) round_param(op, call);
  }

 private:
  JudgedOp judged_;
  std::set<int> variants_;
  std::shared_ptr<const OpExpectation> dialect_;
};

}  // namespace

JudgedOp judged_op(const std::string& name, DType dtype) {
  JudgedOp judged;
  judged.base = &base_op(name);
  judged.op = judged.base;
  if (dtype == DType::fp32) return judged;
  const bool is_update = judged.base->name.ends_with(update_suffix) &&
                         is_rule(judged.base->name.substr(0, judged.base->name.size() - 7));
  ZP_CHECK(is_update && (dtype == DType::bf16 || dtype == DType::fp16), ErrorCode::config,
           "the operation " + judged.base->name + " does not go with dtype " +
               std::string(zeroproof::name(dtype)),
           "only updates have a parameter output, in bf16 or fp16",
           "leave dtype out, or use an update");
  judged.op = &op_with_param(*judged.base, dtype);
  return judged;
}

std::unique_ptr<OpExpectation> expectation(const JudgedOp& judged, std::set<int> variants,
                                           const std::string& dialect) {
  std::shared_ptr<const OpExpectation> other;
  if (!dialect.empty()) other = verification::dialect_expectation(dialect);
  return std::make_unique<Expected>(judged, std::move(variants), std::move(other));
}

std::vector<verification::OpSetting> settings_of(const Op& op, int variant) {
  if (!op.settings) return {};
  verification::CallShape shape;
  shape.fill = op.fills.front();
  shape.variant = variant;
  return op.settings(OpCall(op, shape));
}

}  // namespace zeroproof::python
