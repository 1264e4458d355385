#pragma once
// The largest of several floats by integers alone (R4): keys are ordered like the numbers, -0 below
// +0, and every NaN has the largest key.

#include "cuda/device/kernels/base/host_device.cuh"

namespace zeroproof::cuda::device {

/// 0 is below the key of every number.
ZP_HOST_DEVICE inline std::uint32_t ordered_key(float value) {
  const std::uint32_t bits = bits_of(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return 0xFFFFFFFFU;
  return (bits & sign_bit) != 0U ? ~bits : bits | sign_bit;
}

/// The number of a key; NaN for the largest key.
ZP_HOST_DEVICE inline float float_of_key(std::uint32_t key) {
  return float_of((key & sign_bit) != 0U ? key & ~sign_bit : ~key);
}

}  // namespace zeroproof::cuda::device
