#pragma once

#include <cstdint>

#include "cuda/device/kernels/base/host_device.cuh"

namespace zeroproof::cuda::device {

/// 2^k for -1022 <= k <= 1023, built from bits: exact, independent of any math library.
ZP_HOST_DEVICE inline double power_of_two(int k) {
  return double_of(static_cast<std::uint64_t>(k + 1023) << 52U);
}

}  // namespace zeroproof::cuda::device
