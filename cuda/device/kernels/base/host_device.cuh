#pragma once
// Arithmetic of one element is in headers that a plain C++ compiler accepts too, so that a machine
// without a GPU can check the bits that a GPU has to compute.

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define ZP_HOST_DEVICE __host__ __device__
#else
#define ZP_HOST_DEVICE
#endif

namespace zeroproof::cuda::device {

// std::bit_cast is a constexpr host function, which device code may not call.

ZP_HOST_DEVICE inline std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

ZP_HOST_DEVICE inline std::uint64_t bits_of(double value) {
  std::uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

ZP_HOST_DEVICE inline float float_of(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

ZP_HOST_DEVICE inline double double_of(std::uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// Flips the sign bit where sign_mask has it: 0 keeps every bit, also those of a NaN.
ZP_HOST_DEVICE inline float flip_sign(float value, std::uint32_t sign_mask) {
  return float_of(bits_of(value) ^ sign_mask);
}

inline constexpr std::uint32_t sign_bit = 0x80000000U;

/// Neither NaN nor infinite, computed from the bits: no compiler flag can remove the check.
ZP_HOST_DEVICE inline bool is_finite(float value) {
  return (bits_of(value) & 0x7F800000U) != 0x7F800000U;
}

ZP_HOST_DEVICE inline bool is_finite(double value) {
  return (bits_of(value) & 0x7FF0000000000000ULL) != 0x7FF0000000000000ULL;
}

}  // namespace zeroproof::cuda::device
