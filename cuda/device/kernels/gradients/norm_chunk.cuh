#pragma once
// The parts of R12 that need no other thread: the sum of one lane, and the contribution of a value
// to the limbs.

#include "common/contracts/grad_norm.hpp"
#include "cuda/device/kernels/base/host_device.cuh"

namespace zeroproof::cuda::device {

inline constexpr int norm_num_lanes = 32;
inline constexpr int norm_num_limbs = 21;
inline constexpr int norm_nan_count = norm_num_limbs;      ///< index of nan_count behind the limbs
inline constexpr int norm_inf_count = norm_num_limbs + 1;  ///< index of inf_count
inline constexpr int norm_num_sums = norm_num_limbs + 2;

/// Sum of squares of elements lane, lane + 32, ... of a chunk. chunk: [chunk_numel], 1 <=
/// chunk_numel <= 1024; missing elements count as +0.
ZP_HOST_DEVICE inline double norm_lane_sum(const float* chunk, int chunk_numel, int lane) {
  double sum = 0.0;
  for (int s = 0; s < 32; ++s) {
    const int i = norm_num_lanes * s + lane;
    const double x = i < chunk_numel ? static_cast<double>(chunk[i]) : 0.0;
    const double square = x * x;
    sum = sum + square;
  }
  return sum;
}

/// Integers to add to sums [first, first + 3), where sums are the limbs followed by the two counts.
/// Zeros are not added: first + i may then be past the end.
struct NormDeposit {
  int first;
  std::uint64_t digits[3];
};

/// Splits a value into 32-bit digits: a chunk value, or the square or magnitude of one element
/// (both exact in fp64). It is never negative, never subnormal, at least 2^-298 and below 2^266.
ZP_HOST_DEVICE inline NormDeposit norm_deposit(double value) {
  const std::uint64_t bits = bits_of(value);  // only a NaN can have its sign bit set
  const std::uint64_t infinity = 0x7FF0000000000000ULL;
  if (bits > infinity) return {norm_nan_count, {1, 0, 0}};
  if (bits == infinity) return {norm_inf_count, {1, 0, 0}};
  if (bits == 0) return {0, {0, 0, 0}};
  const std::uint64_t m = (bits & 0xFFFFFFFFFFFFFULL) | 0x10000000000000ULL;
  const int q = static_cast<int>(bits >> 52) - 1075 + 352;
  const int shift = q % 32;
  const std::uint64_t low = m << shift;                           // bits 0..63 of m * 2^shift
  const std::uint64_t high = shift == 0 ? 0 : m >> (64 - shift);  // bits 64..83
  return {q / 32, {low & 0xFFFFFFFFULL, low >> 32, high}};
}

/// Propagates carries until every limb but the last is below 2^32. limbs: [norm_num_limbs], of any
/// unsigned 64-bit type.
template <class Limb>
ZP_HOST_DEVICE inline void carry_limbs(Limb* limbs) {
  for (int i = 0; i + 1 < norm_num_limbs; ++i) {
    limbs[i + 1] += limbs[i] >> 32;
    limbs[i] &= 0xFFFFFFFFULL;
  }
}

}  // namespace zeroproof::cuda::device
