#pragma once
// found_inf of R14: an OR over all threads of a launch.

#include "cuda/device/kernels/base/host_device.cuh"
#include "cuda/device/runtime/launch.hpp"
#include "cuda/device/step/step_memory.hpp"

namespace zeroproof::cuda::device {

/// Computes g1 of R6 and tracks whether a thread has seen a nonfinite one.
struct Unscaling {
  float inv_scale = 1.0F;
  unsigned largest = 0;  ///< magnitude as bits: a NaN is above infinity

  ZP_DEVICE float operator()(float sum) {
    const float unscaled = sum * inv_scale;
    const unsigned magnitude = bits_of(unscaled) & 0x7FFFFFFFU;
    largest = magnitude > largest ? magnitude : largest;
    return unscaled;
  }

  /// Every thread of the block calls this after its last element. One thread per warp writes: if
  /// every element is NaN, a quarter of a million threads would otherwise contend for one word.
  ZP_DEVICE void finish(StepFound* found) const {
    unsigned seen = largest >= 0x7F800000U ? 1U : 0U;
    for (unsigned w = 16; w > 0; w /= 2) seen |= __shfl_down_sync(0xFFFFFFFFU, seen, w);
    if (threadIdx.x % 32 == 0 && seen != 0U) {
      atomicOr(reinterpret_cast<unsigned long long*>(&found->found_inf), 1ULL);
    }
  }
};

}  // namespace zeroproof::cuda::device
