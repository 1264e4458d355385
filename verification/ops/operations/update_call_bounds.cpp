#include "verification/ops/operations/update_call_bounds.hpp"

#include "verification/compare/bounds/update_bounds.hpp"

namespace zeroproof::verification {
namespace {

class UpdateCallBounds final : public CallBounds {
 public:
  UpdateCallBounds(const UpdateSettings& settings, const UpdateOperands& operands,
                   const OpCall& pristine, float trust_ratio)
      : bounds_(settings.hyper, settings.t, trust_ratio), at_(operands), call_(pristine) {
    if (!settings.hyper.amsgrad) at_.max_exp_avg_sq = -1;
    if (settings.hyper.momentum == 0) at_.momentum_buffer = -1;
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

 private:
  float value_at(int operand, std::int64_t i) const {
    return operand < 0 ? 0.0F : call_.in<float>(static_cast<std::size_t>(operand))[i];
  }

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

}  // namespace zeroproof::verification
