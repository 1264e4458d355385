#pragma once
// LAMB by the text of the contract (R6, R12), one element after another.

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "common/contracts/lamb.hpp"

namespace zeroproof::tests {

struct SimpleLamb {
  float exp_avg, exp_avg_sq, u;
};

inline SimpleLamb simple_lamb(const StepScalars& c, bool maximize, float grad, float master,
                              float exp_avg, float exp_avg_sq) {
  const float g = maximize ? -grad : grad;
  const float a1 = c.beta1 * exp_avg;
  const float a2 = c.one_minus_beta1 * g;
  const float m = a1 + a2;
  const float h = g * g;
  const float b1 = c.beta2 * exp_avg_sq;
  const float b2 = c.one_minus_beta2 * h;
  const float v = b1 + b2;
  const float s = std::sqrt(v);
  const float r = s / c.sqrt_bias_correction2;
  const float d = r + c.eps;
  const float q = m / d;
  const float a = c.step_size * q;
  if (c.has_decay == 0) return {m, v, a};
  const float w = c.lr_weight_decay * master;
  return {m, v, a + w};
}

/// A square is an integer of at most 48 bits times a power of 2; bit 0 of the limbs is 2^-352.
inline void add_square(float x, NormLimbs& norm) {
  if (std::isnan(x)) {
    ++norm.nan_count;
    return;
  }
  if (std::isinf(x)) {
    ++norm.inf_count;
    return;
  }
  if (x == 0) return;
  int exponent = 0;
  const auto significand =
      static_cast<std::uint64_t>(std::ldexp(std::frexp(std::fabs(x), &exponent), 24));
  std::uint64_t square = significand * significand;
  int bit = 2 * (exponent - 24) + 352;
  for (; square != 0; square >>= 1, ++bit) {  // one bit after another, with its carry
    if ((square & 1) == 0) continue;
    auto limb = static_cast<std::size_t>(bit / 32);
    norm.limbs[limb] += std::uint64_t{1} << (bit % 32);
    for (; limb + 1 < norm.limbs.size() && norm.limbs[limb] >> 32 != 0; ++limb) {
      norm.limbs[limb] &= 0xFFFFFFFFU;
      ++norm.limbs[limb + 1];
    }
  }
}

/// weight, update: the norms.
inline float simple_ratio(const StepScalars& c, double weight, double update) {
  if (weight == 0 || update == 0) return 1;
  const double n = static_cast<double>(c.lr) * weight;
  const double q = n / update;
  return static_cast<float>(q);
}

}  // namespace zeroproof::tests
