#pragma once

#include <cmath>

#include "common/contracts/step_scalars.hpp"
#include "cuda/device/host_device.cuh"

namespace zeroproof::cuda::device {

struct AdamState {
  float master;
  float exp_avg;
  float exp_avg_sq;
};

/// The update lines of R6 for one element; one rounding per statement (R2).
ZP_HOST_DEVICE inline AdamState adamw_element(const StepScalars& scalars, float grad, const AdamState& old) {
  AdamState next;
  const float a1 = scalars.beta1 * old.exp_avg;
  const float a2 = scalars.one_minus_beta1 * grad;
  next.exp_avg = a1 + a2;

  const float h = grad * grad;
  const float b1 = scalars.beta2 * old.exp_avg_sq;
  const float b2 = scalars.one_minus_beta2 * h;
  next.exp_avg_sq = b1 + b2;

  const float s = sqrtf(next.exp_avg_sq);
  const float r = s / scalars.sqrt_bias_correction2;
  const float d = r + scalars.eps;
  const float q = next.exp_avg / d;
  const float a = scalars.step_size * q;

  float u = a;
  if (scalars.has_decay != 0U) {  // the same for all elements; the one product that may be left out (R6)
    const float w = scalars.lr_weight_decay * old.master;
    u = a + w;
  }
  next.master = old.master - u;
  return next;
}

}  // namespace zeroproof::cuda::device
