#include "tests/verification/interfaces/plugin/kernels/legal_case.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "reference/operations.hpp"
#include "reference/update_operations.hpp"
#include "verification/ops/operations/update_call_bounds.hpp"

namespace zeroproof::tests {

using namespace verification;

namespace {

UpdateRule rule_of(const std::string& name) {
  return std::ranges::find_if(
             update_rules,
             [&](const RuleTraits& rule) { return name == std::string(rule.name) + "_update"; })
      ->rule;
}

bool is_update(const std::string& name) {
  return name.ends_with("_update") && name != "loss_scaler_update";
}

UpdateOperands operands_of(UpdateRule rule) {
  const auto traits = traits_of(rule);
  if (traits.keeps[StateSlot::exp_avg_sq])
    return {.exp_avg = 2, .exp_avg_sq = 3, .max_exp_avg_sq = traits.amsgrad() ? 4 : -1};
  if (traits.momentum()) return {.momentum_buffer = 2};
  return {.exp_avg = 2};
}

void update(const UpdateSettings& s, const UpdateOperands& at, OpCall& call) {
  const auto buffer = [&](int k, bool used) {
    return k >= 0 && used ? call.get<float>(static_cast<std::size_t>(k)) : Span<float>{};
  };
  reference::update_by_rule(s.hyper, s.scalars, 1, call.in<float>(0), call.get<float>(1),
                            {buffer(at.exp_avg, true), buffer(at.exp_avg_sq, true),
                             buffer(at.max_exp_avg_sq, s.hyper.amsgrad),
                             buffer(at.momentum_buffer, s.hyper.momentum != 0)});
}

/// An operation of one factor and two buffers, which are one if `in_place`.
template <class Reference>
void put_factor(Op& op, const char* setting, float factor, bool in_place, Reference reference) {
  op.settings = [=](const OpCall&) -> std::vector<OpSetting> {
    return {{setting, double{factor}}, {"in_place", std::int64_t{in_place ? 1 : 0}}};
  };
  op.reference = [=](OpCall& call) {
    const Span<const float> source = call.in<float>(0);
    if (in_place) std::ranges::copy(source, call.get<float>(1).begin());
    reference(call, in_place ? call.in<float>(1) : source);
  };
}

}  // namespace

double LegalDraw::power_of_ten(double low, double high) { return std::pow(10, uniform(low, high)); }

UpdateSettings LegalDraw::settings(UpdateRule rule) {
  OptimizerHyper h;
  h.rule = rule;
  h.lr = random_() % 16 == 0 ? 0 : power_of_ten(-8, 1);
  h.beta1 = static_cast<float>(std::array{0.9, 0.95, 0.0, 0.99, uniform(0, 0.9999)}[random_() % 5]);
  h.beta2 =
      static_cast<float>(std::array{0.999, 0.95, 0.0, 0.9999, uniform(0, 0.99999)}[random_() % 5]);
  h.eps = std::array{1e-8, 1e-6, 1e-15, power_of_ten(-30, 0)}[random_() % 4];
  h.weight_decay = heads() ? 0 : power_of_ten(-6, 0);
  h.bias_correction = random_() % 4 != 0;
  h.maximize = heads();
  h.amsgrad = traits_of(rule).keeps[StateSlot::exp_avg_sq] && heads();
  if (traits_of(rule).momentum() && random_() % 4 != 0) {
    h.momentum = heads() ? 0.9 : uniform(0.01, 1);
    h.nesterov = heads();
    h.dampening = h.nesterov || heads() ? 0 : uniform(0, 1);
  }
  const std::int64_t t = std::array<std::int64_t, 6>{1, 2, 3, 17, 1001, 16777217}[random_() % 6];
  return {h, t, reference::step_scalars(h, t, 0, 1)};
}

Op LegalDraw::operation(const std::string& name) {
  Op op = *find_op(name);
  op.largest = static_cast<std::int64_t>(std::exp2(uniform(0, 9)));
  if (op.name.starts_with("clip_coef") || op.name == "grad_norm_p" || !op.settings) return op;
  op.variants = {"drawn"};
  if (is_update(name)) {
    const UpdateSettings s = settings(rule_of(name));
    const UpdateOperands at = operands_of(s.hyper.rule);
    op.settings = [=](const OpCall&) { return described(s); };
    op.reference = [=](OpCall& call) { update(s, at, call); };
    op.bounds = [=](const OpCall& pristine, const OpCall&) {
      return update_call_bounds(s, at, pristine);
    };
    return op;
  }
  const auto factor = static_cast<float>(heads() ? uniform(0, 1) : power_of_ten(-30, 10));
  if (name == "unscale") {
    put_factor(op, "inv_scale", factor, heads(), [=](OpCall& call, Span<const float> source) {
      call.get<std::uint32_t>(2)[0] =
          reference::unscale(call.exec, factor, source, call.get<float>(1)) ? 1 : 0;
    });
  } else if (name == "clip") {
    put_factor(op, "clip_coef", factor, heads(), [=](OpCall& call, Span<const float> source) {
      reference::clip(call.exec, factor, source, call.get<float>(1));
    });
  } else if (name == "clip_value") {
    op.settings = [=](const OpCall&) -> std::vector<OpSetting> {
      return {{"clip_value", double{factor}}};
    };
    op.reference = [=](OpCall& call) {
      reference::clip_value(call.exec, factor, call.get<float>(0));
    };
  }
  return op;
}

Fill LegalDraw::fill(const Op& op) { return op.fills[random_() % op.fills.size()]; }

}  // namespace zeroproof::tests
