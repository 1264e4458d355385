#pragma once
// The factor of R6 for passes that run before the other scalars of a step are computed.

#include "cuda/device/kernels/update/step_scalars.cuh"
#include "cuda/device/runtime/launch.hpp"
#include "cuda/device/step/step_memory.hpp"

namespace zeroproof::cuda::device {

/// Every thread computes inv_scale itself. Returns false where R5 has none; decide then halts.
ZP_DEVICE inline bool make_inv_scale(const StepState& state, const StepInput& input,
                                     float& inv_scale) {
  const auto t = static_cast<std::int64_t>(state.applied_steps + 1);
  const int log2_scale = state.scaler.log2_scale;
  const std::int64_t divisor = input.divisor;
  if (!step_in_range(t, log2_scale, divisor)) return false;
  inv_scale = inv_scale_of(log2_scale, divisor);
  return true;
}

}  // namespace zeroproof::cuda::device
