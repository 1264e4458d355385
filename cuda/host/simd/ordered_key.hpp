#pragma once
// The largest of several floats by integers alone (R4): keys have the order of the numbers, with -0
// below +0, and every NaN has the largest key.

#include "cuda/host/simd/variant.hpp"

namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE {

/// Below the key of every number; signed, because the baseline only compares signed integers. The
/// key in the contract of the cross-entropy is the same with the sign bit flipped.
inline constexpr std::int32_t lowest_key = -0x7FFFFFFF - 1;

inline std::int32_t ordered_key(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  const std::uint32_t key = bits == magnitude ? bits : 0x7FFFFFFFU - magnitude + 0x80000000U;
  return static_cast<std::int32_t>(magnitude > 0x7F800000U ? 0x7FFFFFFFU : key);
}

/// The number; a NaN for the largest key.
inline float float_of_key(std::int32_t key) {
  const std::uint32_t bits = static_cast<std::uint32_t>(key);
  return float_of(key >= 0 ? bits : ~bits | 0x80000000U);
}

}  // namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE
