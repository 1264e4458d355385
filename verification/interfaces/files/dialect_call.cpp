#include "verification/interfaces/files/dialect_call.hpp"

#include <algorithm>

#include "common/base/error.hpp"
#include "verification/cases/config/nearest.hpp"

namespace zeroproof::verification {
namespace {

double setting(const std::vector<OpSetting>& settings, const std::string& name) {
  const auto found = std::ranges::find(settings, name, &OpSetting::name);
  ZP_CHECK(found != settings.end(), ErrorCode::internal, "an update has no setting " + name,
           "the dialect reads it", "report this as a defect");
  return std::visit([](auto value) { return static_cast<double>(value); }, found->value);
}

class DialectExpectation final : public OpExpectation {
 public:
  explicit DialectExpectation(const Dialect& dialect) : dialect_(dialect) {}

  std::string name() const override { return dialect_.name; }
  bool covers(const Op& op) const override {
    return has_dialects(op) &&
           (op.name == "sgd_update" ? dialect_.sgd.has_value() : dialect_.adam.has_value());
  }
  bool takes(const Op& op, const OpCall& call) const override {
    return dialect_.takes(hyper_of_call(op, call));
  }
  void compute(const Op& op, OpCall& call) const override { compute_dialect(dialect_, op, call); }

 private:
  const Dialect& dialect_;
};

}  // namespace

bool has_dialects(const Op& op) {
  return op.name == "adamw_update" || op.name == "adam_update" || op.name == "sgd_update";
}

DialectHyper hyper_of_call(const Op& op, const OpCall& call) {
  const std::vector<OpSetting> settings = op.settings(call);
  DialectHyper h;
  h.rule = op.name == "adamw_update"  ? UpdateRule::adamw
           : op.name == "adam_update" ? UpdateRule::adam
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
  return h;
}

const Dialect& dialect_named(const std::string& name) {
  std::vector<std::string> names;
  for (const Dialect& dialect : all_dialects()) names.push_back(dialect.name);
  const Dialect* dialect = find_dialect(name);
  ZP_CHECK(dialect != nullptr, ErrorCode::config, "'" + name + "' is not a dialect",
           "no dialect has that name",
           suggestion(name, names, "zeroproof explain dialects prints them"));
  return *dialect;
}

void compute_dialect(const Dialect& dialect, const Op& op, OpCall& call) {
  UpdateTensors tensors;
  for (std::size_t k = 0; k < op.operands.size(); ++k) {
    const Operand& operand = op.operands[k];
    const Span<float> values = call.get<float>(k);
    if (operand.access == Access::in) tensors.grad = values;
    if (operand.name == "master") tensors.master = values;
    if (operand.name == "exp_avg") tensors.exp_avg = values;
    if (operand.name == "exp_avg_sq") tensors.exp_avg_sq = values;
    if (operand.name == "max_exp_avg_sq") tensors.max_exp_avg_sq = values;
    if (operand.name == "momentum_buffer") tensors.momentum_buffer = values;
  }
  const DialectHyper hyper = hyper_of_call(op, call);
  update(dialect, hyper, hyper.rule == UpdateRule::sgd && hyper.t == 1, tensors);
}

std::shared_ptr<const OpExpectation> dialect_expectation(const std::string& name) {
  return std::make_shared<DialectExpectation>(dialect_named(name));
}

}  // namespace zeroproof::verification
