#pragma once
// From G to the gradient of the rule (R6), one element: unscale, clip, clip by value, maximize; and
// the part of this chain that is left when a pass reads the gradient.

#include "common/contracts/step_scalars.hpp"
#include "cuda/device/kernels/base/host_device.cuh"
#include "cuda/device/runtime/launch.hpp"
#include "cuda/device/step/step_memory.hpp"

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

/// For a pass over a gradient that earlier phases changed in place. A pass calls starts() once,
/// enter() for every piece and operator() for every element.
struct ChangedGradient {
  std::uint32_t sign;

  static ChangedGradient of(const OptimizerHyper& hyper) { return {sign_mask(hyper)}; }
  ZP_DEVICE static bool starts(const StepMemory& memory) { return memory.state->halt == 0U; }
  ZP_DEVICE void enter(const StepScalars& /*scalars*/, float /*clip_coef*/) {}
  ZP_DEVICE float operator()(float g) const { return flip_sign(g, sign); }
};

/// For a pass over G.
struct SummedGradient {
  GradientChain chain;

  static SummedGradient of(const OptimizerHyper& hyper) {
    return {{1.0F, 1.0F, clip_limit(hyper), sign_mask(hyper)}};
  }
  ZP_DEVICE static bool starts(const StepMemory& memory) {
    return memory.state->halt == 0U && memory.found->skipped == 0U;
  }
  ZP_DEVICE void enter(const StepScalars& scalars, float clip_coef) {
    chain.inv_scale = scalars.inv_scale;
    chain.clip_coef = clip_coef;
  }
  ZP_DEVICE float operator()(float sum) const { return chain(sum); }
};

}  // namespace zeroproof::cuda::device
