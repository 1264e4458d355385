#pragma once

#include "cuda/device/kernels/base/host_device.cuh"

namespace zeroproof::cuda::device {

/// Two words in device memory that end a step (R6): where one of them is not 0, kernels do nothing.
/// Null pointers: none.
struct StepEnds {
  const std::uint32_t* halt = nullptr;
  const std::uint32_t* skipped = nullptr;

  /// Only in kernels.
  ZP_HOST_DEVICE bool ended() const {
    return (halt != nullptr && *halt != 0U) || (skipped != nullptr && *skipped != 0U);
  }
};

}  // namespace zeroproof::cuda::device
