#pragma once
// Expected norms of the device twins, from R12 as it is written.

#include <cmath>
#include <cstdint>

#include "common/contracts/grad_norm.hpp"
#include "tests/cuda/device_place.hpp"

namespace zeroproof::device_test {

/// 32 lanes, then the halving tree.
inline double expected_chunk(const Place<float>& grad, std::int64_t first, std::int64_t numel) {
  double a[32] = {};
  for (int l = 0; l < 32; ++l) {
    for (int s = 0; s < 32; ++s) {
      const std::int64_t i = first + 32 * s + l;
      volatile double square = i < numel ? static_cast<double>(grad[i]) * static_cast<double>(grad[i]) : 0.0;
      volatile double sum = a[l] + square;
      a[l] = sum;
    }
  }
  for (int w = 16; w > 0; w /= 2) {
    for (int l = 0; l < w; ++l) a[l] = a[l] + a[l + w];
  }
  return a[0];
}

/// Bit by bit: bit k of m has the weight of bit (q + k) mod 32 of limb floor((q + k) / 32).
inline void expected_deposit(double value, NormLimbs& limbs) {
  if (std::isnan(value)) ++limbs.nan_count;
  if (std::isinf(value)) ++limbs.inf_count;
  if (!std::isfinite(value) || value == 0) return;
  int exponent = 0;
  const auto m = static_cast<std::uint64_t>(std::ldexp(std::frexp(value, &exponent), 53));
  const int q = exponent - 53 + 352;
  for (int k = 0; k < 53; ++k) {
    if ((m >> k & 1) != 0) limbs.limbs[static_cast<std::size_t>((q + k) / 32)] += 1ULL << (q + k) % 32;
  }
}

inline void normalise(NormLimbs& limbs) {
  for (std::size_t i = 0; i + 1 < limbs.limbs.size(); ++i) {
    limbs.limbs[i + 1] += limbs.limbs[i] >> 32;
    limbs.limbs[i] &= 0xFFFFFFFFULL;
  }
}

}  // namespace zeroproof::device_test
