#pragma once
// The elementary functions of R23 for one element, without a branch, so that loops over them are
// vectorised: every choice is a selection between two computed values. A NaN passes every choice.

#include <utility>

#include "common/contracts/elementary.hpp"
#include "cuda/host/simd/variant.hpp"

namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE {

// A call that is not inlined keeps its loop from being vectorised.
#define ZP_ELEMENT [[gnu::always_inline]] inline

/// 1 / (k + 1)!, k from 0; every factorial is exact.
inline constexpr std::array<double, 13> inverse_factorials = [] {
  std::array<double, 13> values{};
  double factorial = 1.0;
  for (int k = 0; k < 13; ++k) {
    factorial *= k + 1;
    values[k] = 1.0 / factorial;
  }
  return values;
}();

/// 1 / (2 k + 3), k from 0.
inline constexpr std::array<double, 10> inverse_odds = [] {
  std::array<double, 10> values{};
  for (int k = 0; k < 10; ++k) values[k] = 1.0 / (2 * k + 3);
  return values;
}();

inline std::uint64_t bits_of(double value) { return __builtin_bit_cast(std::uint64_t, value); }
inline double double_of(std::uint64_t bits) { return __builtin_bit_cast(double, bits); }

/// c[first] + c[first + 1] x + ..., from the last coefficient down.
template <const auto& c, std::size_t first = 0>
ZP_ELEMENT double polynomial(double x) {
  if constexpr (first + 1 == std::size(c)) {
    return c[first];
  } else {
    const double product = polynomial<c, first + 1>(x) * x;
    return product + c[first];
  }
}

/// The same with coefficients of a where the condition holds, else those of b.
template <const auto& a, const auto& b, std::size_t first = 0>
ZP_ELEMENT double either_polynomial(bool want_a, double x) {
  const double coefficient = want_a ? a[first] : b[first];
  if constexpr (first + 1 == std::size(a)) {
    return coefficient;
  } else {
    const double product = either_polynomial<a, b, first + 1>(want_a, x) * x;
    return product + coefficient;
  }
}

/// exp(z) = power * (1 + q), power = 2^n.
struct Reduced {
  double power;
  double q;
};

/// |z| below 700, or NaN: then q is NaN.
ZP_ELEMENT Reduced reduced(double z) {
  const double scaled = z * elementary::log2_e;
  const double t = scaled + elementary::round_shift;
  const double n = t - elementary::round_shift;
  const double high = n * elementary::ln2_high;
  const double low = n * elementary::ln2_low;
  const double rest = z - high;
  const double r = rest - low;
  const double q = r * polynomial<inverse_factorials>(r);
  // The last 12 bits of t are those of n, and 1023 more of them the exponent of 2^n.
  return {double_of((bits_of(t) << 52) + 0x3FF0000000000000U), q};
}

ZP_ELEMENT float with_sign(float magnitude, float sign) {
  return float_of((bits_of(magnitude) & 0x7FFFFFFFU) | (bits_of(sign) & 0x80000000U));
}

ZP_ELEMENT float exp_of(float x) {
  const float low = x < -105.0F ? -105.0F : x;
  const float z = low > 89.0F ? 89.0F : low;
  const Reduced parts = reduced(static_cast<double>(z));
  const double sum = 1.0 + parts.q;
  return static_cast<float>(parts.power * sum);
}

ZP_ELEMENT float tanh_of(float x) {
  const float magnitude = float_of(bits_of(x) & 0x7FFFFFFFU);
  const double a = static_cast<double>(magnitude > 22.0F ? 22.0F : magnitude);
  const Reduced parts = reduced(2.0 * a);
  const double product = parts.power * parts.q;
  const double less = parts.power - 1.0;
  const double p = product + less;
  const double more = p + 2.0;
  return with_sign(static_cast<float>(p / more), x);
}

ZP_ELEMENT float sigmoid_of(float x) {
  const float low = -x < -105.0F ? -105.0F : -x;
  const float z = low > 105.0F ? 105.0F : low;
  const Reduced parts = reduced(static_cast<double>(z));
  const double sum = 1.0 + parts.q;
  const double e = parts.power * sum;
  const double more = 1.0 + e;
  return static_cast<float>(1.0 / more);
}

ZP_ELEMENT float erf_of(float x) {
  const float magnitude = float_of(bits_of(x) & 0x7FFFFFFFU);
  const double a = static_cast<double>(magnitude > 4.0F ? 4.0F : magnitude);
  const double z = a * a;
  const double product = a * polynomial<elementary::erf_small>(z);
  const double small = a + product;
  const bool middle = a < 2.5;
  const double d = a - (middle ? 1.75 : 3.25);
  const double others = either_polynomial<elementary::erf_middle, elementary::erf_large>(middle, d);
  return with_sign(static_cast<float>(a < 1.0 ? small : others), x);
}

ZP_ELEMENT float log_of(float x) {
  // 1024 more than n as an unsigned integer, and 2^52 more than that as a number: no arithmetic
  // shift, no conversion of 64-bit integers, which old instruction sets lack. The result for values
  // that are not positive and finite is arbitrary, and replaced below.
  const std::uint64_t b = bits_of(static_cast<double>(x)) - elementary::sqrt_half_bits;
  const std::uint64_t biased = (b + (std::uint64_t{1024} << 52)) >> 52;
  const double n = double_of(biased + 0x4330000000000000U) - (0x1p52 + 1024.0);
  const double m = double_of((b & 0xFFFFFFFFFFFFFU) + elementary::sqrt_half_bits);
  const double less = m - 1.0;
  const double more = m + 1.0;
  const double s = less / more;
  const double z = s * s;
  const double tail = z * polynomial<inverse_odds>(z);
  const double u = 2.0 * s;
  const double v = u * tail;
  const double low = v + n * elementary::ln2_low;
  const double rest = u + low;
  const double high = n * elementary::ln2_high;
  const float inside = static_cast<float>(high + rest);
  const float nan = __builtin_nanf("");
  const float outside = x == 0.0F ? -__builtin_inff() : (x < 0.0F ? nan : x);
  return x > 0.0F && x < __builtin_inff() ? inside : outside;
}

}  // namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE
