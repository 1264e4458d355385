#pragma once

#include "cuda/device/kernels/base/host_device.cuh"

namespace zeroproof::cuda::device {

/// Row of element i of rows with that many columns. A 32-bit division is several times as fast.
ZP_HOST_DEVICE inline std::int64_t row_of(std::int64_t i, std::int64_t columns) {
  if (((i | columns) >> 32) == 0) {
    return static_cast<std::uint32_t>(i) / static_cast<std::uint32_t>(columns);
  }
  return i / columns;
}

}  // namespace zeroproof::cuda::device
