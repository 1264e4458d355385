#pragma once

#include "common/contracts/step_scalars.hpp"
#include "cuda/device/kernels/base/host_device.cuh"

namespace zeroproof::cuda::device {

struct LionState {
  float master;
  float exp_avg;
};

/// The update lines of R6 for one element; one rounding per statement (R2). grad already has the
/// sign of a descent. has_decay is the same for all elements.
ZP_HOST_DEVICE inline LionState lion_element(const StepScalars& scalars, float g,
                                             const LionState& old) {
  const float a1 = scalars.beta1 * old.exp_avg;
  const float a2 = scalars.one_minus_beta1 * g;
  const float c = a1 + a2;
  // R4: written out, so that a zero keeps its sign and a NaN, for which no comparison holds, passes
  // through.
  const float e = c > 0.0F ? 1.0F : (c < 0.0F ? -1.0F : c);
  const float a = scalars.lr * e;
  float u = a;
  if (scalars.has_decay != 0U) {
    const float w = scalars.lr_weight_decay * old.master;
    u = a + w;
  }
  const float b1 = scalars.beta2 * old.exp_avg;
  const float b2 = scalars.one_minus_beta2 * g;
  return {old.master - u, b1 + b2};
}

}  // namespace zeroproof::cuda::device
