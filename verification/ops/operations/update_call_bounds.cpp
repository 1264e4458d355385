#include "verification/ops/operations/update_call_bounds.hpp"

#include "common/base/float_formats.hpp"
#include "verification/compare/bounds/fp32_powers.hpp"
#include "verification/compare/bounds/update_bounds.hpp"
#include "verification/compare/wrong_formulas.hpp"

namespace zeroproof::verification {
namespace {

bool corrects_bias(UpdateRule rule) { return traits_of(rule).keeps[StateSlot::exp_avg_sq]; }

/// Without state that these settings do not have.
UpdateOperands kept(UpdateOperands operands, const OptimizerHyper& hyper) {
  if (!hyper.amsgrad) operands.max_exp_avg_sq = -1;
  if (hyper.momentum == 0) operands.momentum_buffer = -1;
  return operands;
}

UpdateState state_of(const OpCall& call, const UpdateOperands& at) {
  const auto values = [&](int operand) {
    return operand < 0 ? Span<const float>{} : call.in<float>(static_cast<std::size_t>(operand));
  };
  return {values(at.master), values(at.exp_avg), values(at.exp_avg_sq), values(at.max_exp_avg_sq),
          values(at.momentum_buffer)};
}

class UpdateCallBounds final : public CallBounds {
 public:
  UpdateCallBounds(const UpdateSettings& settings, const UpdateOperands& operands,
                   const OpCall& pristine, float trust_ratio)
      : settings_(settings),
        bounds_(settings.hyper, settings.t, trust_ratio),
        at_(kept(operands, settings.hyper)),
        call_(pristine) {
    if (dtype_of(at_.master) == DType::bf16) bounds_.cast_master_to_bf16();
  }

  ElementBound of(std::size_t operand, std::int64_t index) override {
    if (index != index_) {
      bound_ = bounds_(value_at(at_.grad, index),
                       {value_at(at_.master, index), value_at(at_.exp_avg, index),
                        value_at(at_.exp_avg_sq, index), value_at(at_.max_exp_avg_sq, index),
                        value_at(at_.momentum_buffer, index)});
      index_ = index;
    }
    const auto k = static_cast<int>(operand);
    if (k == at_.master) return bound_.master;
    if (k == at_.exp_avg) return bound_.exp_avg;
    if (k == at_.exp_avg_sq) return bound_.exp_avg_sq;
    if (k == at_.max_exp_avg_sq) return bound_.max_exp_avg_sq;
    if (k == at_.momentum_buffer) return bound_.momentum_buffer;
    const Span<const float> untouched =
        call_.in<float>(operand);  // never written for state that this setting does not have
    return {untouched[index], 0, true};
  }

  std::vector<std::unique_ptr<CallBounds>> with_powers() const override {
    std::vector<std::unique_ptr<CallBounds>> all;
    const OptimizerHyper& hyper = settings_.hyper;
    if (!corrects_bias(hyper.rule) || !hyper.bias_correction) return all;
    const std::vector<float> powers1 = fp32_powers(hyper.beta1, settings_.t),
                             powers2 = fp32_powers(hyper.beta2, settings_.t);
    for (const float power1 : powers1) {
      for (const float power2 : powers2) {
        auto bounds = std::make_unique<UpdateCallBounds>(*this);
        bounds->bounds_.set_powers(power1, power2);
        bounds->index_ = -1;
        all.push_back(std::move(bounds));
      }
    }
    return all;
  }

 private:
  DType dtype_of(int operand) const { return call_.view(static_cast<std::size_t>(operand)).dtype; }
  float value_at(int operand, std::int64_t i) const {
    if (operand < 0) return 0;
    const auto k = static_cast<std::size_t>(operand);
    return dtype_of(operand) == DType::bf16 ? to_float(call_.in<bf16>(k)[i])
                                            : call_.in<float>(k)[i];
  }

  UpdateSettings settings_;
  UpdateBounds bounds_;
  UpdateOperands at_;
  const OpCall& call_;
  std::int64_t index_ = -1;
  UpdateBound bound_;
};

}  // namespace

std::unique_ptr<CallBounds> update_call_bounds(const UpdateSettings& settings,
                                               const UpdateOperands& operands,
                                               const OpCall& pristine, float trust_ratio) {
  return std::make_unique<UpdateCallBounds>(settings, operands, pristine, trust_ratio);
}

void add_bounds(Op& op, const std::function<UpdateSettings(int variant)>& settings,
                const UpdateOperands& operands) {
  op.corrects_bias = corrects_bias(settings(0).hyper.rule);
  op.bounds = [=](const OpCall& pristine, const OpCall&) {
    return update_call_bounds(settings(pristine.variant()), operands, pristine);
  };
  op.wrong_formulas = [=](const OpCall& pristine, const OpCall& candidate) {
    const UpdateSettings s = settings(pristine.variant());
    const UpdateOperands at = kept(operands, s.hyper);
    const UpdateResults results{pristine.in<float>(static_cast<std::size_t>(at.grad)),
                                state_of(pristine, at), state_of(candidate, at)};
    return wrong_formulas({s.hyper, s.hyper.beta1, s.hyper.beta2, s.t}, {&results, 1});
  };
}

}  // namespace zeroproof::verification
