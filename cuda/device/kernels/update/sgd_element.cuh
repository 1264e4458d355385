#pragma once

#include "common/contracts/step_scalars.hpp"
#include "cuda/device/kernels/base/host_device.cuh"

namespace zeroproof::cuda::device {

/// The value that the step multiplies by lr: the gradient, the momentum buffer, gradient plus
/// momentum times buffer, or the moving average.
enum class SgdForm { plain, momentum, nesterov, ema };

struct SgdState {
  float master;
  float buffer;  ///< momentum_buffer, or exp_avg; not used by the plain form
};

/// The update lines of R6 for one element; one rounding per statement (R2). grad already has the
/// sign of a descent. has_decay and is_first are the same for all elements.
template <SgdForm form>
ZP_HOST_DEVICE inline SgdState sgd_element(const StepScalars& scalars, float grad,
                                           const SgdState& old) {
  SgdState next = old;
  float g = grad;
  if (scalars.has_decay != 0U) {
    const float w = scalars.weight_decay * old.master;
    g = grad + w;
  }

  float e = g;
  if (form == SgdForm::ema) {
    const float a1 = scalars.beta1 * old.buffer;
    const float a2 = scalars.one_minus_beta1 * g;
    next.buffer = a1 + a2;
    e = next.buffer;
  } else if (form != SgdForm::plain) {
    next.buffer = g;
    if (scalars.is_first == 0U) {
      const float x = scalars.momentum * old.buffer;
      const float y = scalars.one_minus_dampening * g;
      next.buffer = x + y;
    }
    e = next.buffer;
    if (form == SgdForm::nesterov) {
      const float h = scalars.momentum * next.buffer;
      e = g + h;
    }
  }
  const float s = scalars.lr * e;
  next.master = old.master - s;
  return next;
}

}  // namespace zeroproof::cuda::device
