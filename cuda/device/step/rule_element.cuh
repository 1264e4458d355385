#pragma once
// One element of every rule behind one interface, so that a pass is written once for all rules.

#include <type_traits>

#include "common/contracts/step_scalars.hpp"
#include "cuda/device/kernels/update/adam_element.cuh"
#include "cuda/device/kernels/update/lamb_element.cuh"
#include "cuda/device/kernels/update/lion_element.cuh"
#include "cuda/device/kernels/update/sgd_element.cuh"

namespace zeroproof::cuda::device {

/// A rule with the options that change its state or its update.
enum class RuleForm : std::uint8_t {
  adamw,
  adamw_amsgrad,
  adam,
  adam_amsgrad,
  sgd_plain,
  sgd_momentum,
  sgd_nesterov,
  sgd_ema,
  lion,
  lamb
};

/// Buffers of a form besides the master.
constexpr int num_state_buffers(RuleForm form) {
  switch (form) {
    case RuleForm::adamw:
    case RuleForm::adam:
    case RuleForm::lamb:
      return 2;
    case RuleForm::adamw_amsgrad:
    case RuleForm::adam_amsgrad:
      return 3;
    case RuleForm::sgd_plain:
      return 0;
    default:
      return 1;
  }
}

/// Master and state of an element, in the order of R6: first is exp_avg or momentum_buffer, second
/// exp_avg_sq, third max_exp_avg_sq. Values that a form does not have are ignored.
struct RuleValues {
  float master;
  float first;
  float second;
  float third;
};

/// The scalars of a set, and the trust ratio of a tensor (R6).
struct LambScalars : StepScalars {
  float trust_ratio;
};

/// Factors of an element that are the same for its whole tensor.
template <RuleForm form>
using RuleScalars = std::conditional_t<form == RuleForm::lamb, LambScalars, StepScalars>;

/// Whether the old state is used: a first step ignores the content of the momentum buffer.
template <RuleForm form>
ZP_HOST_DEVICE constexpr bool reads_state(const StepScalars& scalars) {
  return (form != RuleForm::sgd_momentum && form != RuleForm::sgd_nesterov) ||
         scalars.is_first == 0U;
}

template <Decay decay, bool amsgrad>
ZP_HOST_DEVICE inline RuleValues adam_values(const StepScalars& scalars, float g,
                                             const RuleValues& old) {
  const AdamState next =
      adam_element<decay, amsgrad>(scalars, g, {old.master, old.first, old.second, old.third});
  return {next.master, next.exp_avg, next.exp_avg_sq, next.max_exp_avg_sq};
}

template <SgdForm form>
ZP_HOST_DEVICE inline RuleValues sgd_values(const StepScalars& scalars, float g,
                                            const RuleValues& old) {
  const SgdState next = sgd_element<form>(scalars, g, {old.master, old.first});
  return {next.master, next.buffer, 0.0F, 0.0F};
}

/// The update lines of R6; g already has the sign of a descent.
template <RuleForm form>
ZP_HOST_DEVICE inline RuleValues rule_element(const RuleScalars<form>& scalars, float g,
                                              const RuleValues& old) {
  if constexpr (form == RuleForm::adamw) {
    return adam_values<Decay::decoupled, false>(scalars, g, old);
  } else if constexpr (form == RuleForm::adamw_amsgrad) {
    return adam_values<Decay::decoupled, true>(scalars, g, old);
  } else if constexpr (form == RuleForm::adam) {
    return adam_values<Decay::in_gradient, false>(scalars, g, old);
  } else if constexpr (form == RuleForm::adam_amsgrad) {
    return adam_values<Decay::in_gradient, true>(scalars, g, old);
  } else if constexpr (form == RuleForm::sgd_plain) {
    return sgd_values<SgdForm::plain>(scalars, g, old);
  } else if constexpr (form == RuleForm::sgd_momentum) {
    return sgd_values<SgdForm::momentum>(scalars, g, old);
  } else if constexpr (form == RuleForm::sgd_nesterov) {
    return sgd_values<SgdForm::nesterov>(scalars, g, old);
  } else if constexpr (form == RuleForm::sgd_ema) {
    return sgd_values<SgdForm::ema>(scalars, g, old);
  } else if constexpr (form == RuleForm::lamb) {
    const AdamState next =
        lamb_element(scalars, scalars.trust_ratio, g, {old.master, old.first, old.second, 0.0F});
    return {next.master, next.exp_avg, next.exp_avg_sq, 0.0F};
  } else {
    const LionState next = lion_element(scalars, g, {old.master, old.first});
    return {next.master, next.exp_avg, 0.0F, 0.0F};
  }
}

}  // namespace zeroproof::cuda::device
