#pragma once
// The end of R12: computes a norm and a clip coefficient from limbs that were summed over all
// ranks.

#include <cmath>

#include "common/contracts/grad_norm.hpp"
#include "cuda/device/kernels/base/power_of_two.cuh"
#include "cuda/device/kernels/gradients/norm_chunk.cuh"

namespace zeroproof::cuda::device {

/// The integer of normalised limbs, times 2^-352, rounded once to fp64 (nearest, ties to even).
ZP_HOST_DEVICE inline double round_limbs(const std::uint64_t* limbs) {
  int top = norm_num_limbs - 1;
  while (top >= 0 && limbs[top] == 0) --top;
  if (top < 0) return 0.0;
  int high = 63;
  while ((limbs[top] >> high) == 0) --high;
  const int first = 32 * top + high;  // the highest bit that is set
  const int last = first - 52;        // the lowest bit that fp64 keeps; below 0: it keeps all

  // Bit n is bit n % 32 of limb n / 32, except for the last limb, which has up to 64 bits.
  std::uint64_t mantissa = 0;
  bool half = false, below = false;
  for (int i = 0; i <= top; ++i) {
    const int begin = 32 * i;
    const int shift = begin - last;  // position of bit 0 of this limb in the mantissa
    if (shift >= 0) {
      mantissa += limbs[i] << shift;
      continue;
    }
    const int cut = -shift;  // number of its bits that are dropped
    if (cut > 64) {
      below = below || limbs[i] != 0;
      continue;
    }
    if (cut < 64) mantissa += limbs[i] >> cut;
    half = half || ((limbs[i] >> (cut - 1)) & 1ULL) != 0;
    below = below || (cut > 1 && (limbs[i] << (65 - cut)) != 0);
  }
  if (half && (below || mantissa % 2 != 0)) mantissa += 1;  // 2^53 is representable in fp64 too
  return static_cast<double>(mantissa) * power_of_two(last - 352);
}

/// The sum that limbs and counts represent. sums: [norm_num_sums]; its limbs are normalised in
/// place.
ZP_HOST_DEVICE inline double sum_of_limbs(std::uint64_t* sums) {
  if (sums[norm_nan_count] > 0) return double_of(0x7FF8000000000000ULL);
  if (sums[norm_inf_count] > 0) return double_of(0x7FF0000000000000ULL);
  carry_limbs(sums);
  return round_limbs(sums);
}

/// N of the forms chunk1024 and exact.
ZP_HOST_DEVICE inline double norm_of_squares(std::uint64_t* sums) {
  return sqrt(sum_of_limbs(sums));
}

/// N of the form inf.
ZP_HOST_DEVICE inline double norm_of_largest(std::uint32_t amax) {
  return amax > 0x7F800000U ? double_of(0x7FF8000000000000ULL)
                            : static_cast<double>(float_of(amax));
}

/// max_norm: 0 for no limit.
ZP_HOST_DEVICE inline float clip_coef_of(double norm, double max_norm) {
  if (max_norm == 0.0) return 1.0F;
  if (norm != norm) return static_cast<float>(norm);
  const double s = norm + 1e-6;
  const double q = max_norm / s;
  return static_cast<float>(q < 1.0 ? q : 1.0);
}

}  // namespace zeroproof::cuda::device
