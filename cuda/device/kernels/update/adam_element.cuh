#pragma once

#include <cmath>

#include "common/contracts/step_scalars.hpp"
#include "cuda/device/kernels/base/host_device.cuh"

namespace zeroproof::cuda::device {

enum class Decay { decoupled, in_gradient };

struct AdamState {
  float master;
  float exp_avg;
  float exp_avg_sq;
  float max_exp_avg_sq;  ///< with amsgrad only
};

/// The value u that R6 subtracts from the master, and the new moments.
struct AdamChange {
  float u;
  float exp_avg;
  float exp_avg_sq;
  float max_exp_avg_sq;  ///< with amsgrad only
};

/// The lines of R6 up to u for one element; one rounding per statement (R2). grad already has the
/// sign of a descent. has_decay is the same for all elements; only its product may be skipped.
template <Decay decay, bool amsgrad>
ZP_HOST_DEVICE inline AdamChange adam_change(const StepScalars& scalars, float grad,
                                             const AdamState& old) {
  AdamChange next{0.0F, 0.0F, 0.0F, old.max_exp_avg_sq};
  float g = grad;
  if (decay == Decay::in_gradient && scalars.has_decay != 0U) {
    const float w = scalars.weight_decay * old.master;
    g = grad + w;
  }
  const float a1 = scalars.beta1 * old.exp_avg;
  const float a2 = scalars.one_minus_beta1 * g;
  next.exp_avg = a1 + a2;

  const float h = g * g;
  const float b1 = scalars.beta2 * old.exp_avg_sq;
  const float b2 = scalars.one_minus_beta2 * h;
  next.exp_avg_sq = b1 + b2;

  float x = next.exp_avg_sq;
  if (amsgrad) {
    x = old.max_exp_avg_sq >= x ? old.max_exp_avg_sq
                                : x;  // R4: library maxima differ in their treatment of NaN
    next.max_exp_avg_sq = x;
  }
  const float s = sqrtf(x);
  const float r = s / scalars.sqrt_bias_correction2;
  const float d = r + scalars.eps;
  const float q = next.exp_avg / d;
  const float a = scalars.step_size * q;

  next.u = a;
  if (decay == Decay::decoupled && scalars.has_decay != 0U) {
    const float w = scalars.lr_weight_decay * old.master;
    next.u = a + w;
  }
  return next;
}

/// The update of one element.
template <Decay decay, bool amsgrad>
ZP_HOST_DEVICE inline AdamState adam_element(const StepScalars& scalars, float grad,
                                             const AdamState& old) {
  const AdamChange next = adam_change<decay, amsgrad>(scalars, grad, old);
  return {old.master - next.u, next.exp_avg, next.exp_avg_sq, next.max_exp_avg_sq};
}

}  // namespace zeroproof::cuda::device
