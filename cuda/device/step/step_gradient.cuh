#pragma once
// From G to the gradient of the rule (R6), one element: unscale, clip, clip by value, maximize.

#include "common/contracts/step_scalars.hpp"
#include "cuda/device/kernels/base/host_device.cuh"

namespace zeroproof::cuda::device {

/// g clipped to [-limit, limit]. Comparisons instead of minimum and maximum, which would replace a
/// NaN (R4).
ZP_HOST_DEVICE inline float clipped_value(float g, float limit) {
  return g > limit ? limit : (g < -limit ? -limit : g);
}

/// fp32(clip_value), or infinity if a run has none: no value exceeds it, so every bit is kept.
inline float clip_limit(const OptimizerHyper& hyper) {
  return hyper.clip_value ? static_cast<float>(*hyper.clip_value) : float_of(0x7F800000U);
}

/// The bits that maximize flips before the rule: the sign bit, or none.
inline std::uint32_t sign_mask(const OptimizerHyper& hyper) {
  return hyper.maximize ? sign_bit : 0U;
}

/// The whole chain. Every product is evaluated, even with a factor of 1.
struct GradientChain {
  float inv_scale;
  float clip_coef;
  float limit;
  std::uint32_t sign;

  ZP_HOST_DEVICE float operator()(float sum) const {
    const float unscaled = sum * inv_scale;
    const float clipped = unscaled * clip_coef;
    return flip_sign(clipped_value(clipped, limit), sign);
  }
};

}  // namespace zeroproof::cuda::device
