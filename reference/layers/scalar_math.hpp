#pragma once
// exp, tanh, sigmoid, erf and log of single values, by the sequences of
// common/contracts/elementary.hpp (R23).
//
// Only log branches on its argument, so loops over the other functions can be vectorised. Arguments
// in fp32 give correctly rounded fp32 results, except for 66 values of sigmoid and 5 of log.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "common/contracts/elementary.hpp"

namespace zeroproof::reference::scalar_math {

/// exp(x) = 2^n * (1 + q) with |ln(1 + q)| <= ln(2) / 2.
struct ReducedExp {
  std::int64_t n;
  double q;
};

/// |x| < 2^20 or NaN.
inline ReducedExp reduce_exp(double x) {
  using namespace elementary;
  const double shifted = x * log2_e + round_shift;
  const double n = shifted - round_shift;
  const double r = (x - n * ln2_high) - n * ln2_low;
  // Taylor series of (exp(r) - 1) / r to r^12; the remainder is below 2^-57 for |r| <= 0.3466.
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  // Unsigned, because the difference is negative for n < 0 and meaningless (but defined) for NaN.
  const std::uint64_t bits =
      std::bit_cast<std::uint64_t>(shifted) - std::bit_cast<std::uint64_t>(round_shift);
  return {static_cast<std::int64_t>(bits), r * p};
}

/// 2^n for -1022 <= n <= 1023; any bits for other n.
inline double power_of_two(std::int64_t n) {
  return std::bit_cast<double>((static_cast<std::uint64_t>(n) + 1023U) << 52);
}

/// x limited to [low, high]; NaN stays NaN because both comparisons are false.
inline double limit(double x, double low, double high) {
  x = x < low ? low : x;
  return x > high ? high : x;
}

/// tanh(x) for x >= 0.
inline double tanh_of_magnitude(double x) {
  // From 22 on the result is 1. p = exp(2x) - 1 is accurate near 0 too, where exp(2x) alone would
  // cancel.
  const ReducedExp e = reduce_exp(2.0 * limit(x, 0.0, 22.0));
  const double scale = power_of_two(e.n);
  const double p = scale * e.q + (scale - 1.0);
  return p / (p + 2.0);
}

/// c[0] + c[1] x + c[2] x^2 + ..., from the last coefficient on.
template <std::size_t N>
inline double polynomial(const std::array<double, N>& c, double x) {
  double sum = c[N - 1];
  for (std::size_t k = N - 1; k-- > 0;) sum = sum * x + c[k];
  return sum;
}

/// erf(x) for x >= 0.
inline double erf_of_magnitude(double x) {
  const double a = limit(x, 0.0, 4.0);  // erf(4) is within half a unit of fp32 of 1
  if (a < 1.0) return a + a * polynomial(elementary::erf_small, a * a);
  return a < 2.5 ? polynomial(elementary::erf_middle, a - 1.75)
                 : polynomial(elementary::erf_large, a - 3.25);
}

/// An odd function from its values at magnitudes, in fp64.
template <class OfMagnitude>
inline float odd(float x, const OfMagnitude& of_magnitude) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const double magnitude = std::bit_cast<float>(bits & 0x7FFFFFFFU);
  const auto result = static_cast<float>(of_magnitude(magnitude));
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(result) | (bits & 0x80000000U));
}

inline float exp_f32(float x) {
  // exp(-105) rounds to 0 and exp(89) to infinity.
  const ReducedExp e = reduce_exp(limit(x, -105.0, 89.0));
  return static_cast<float>(power_of_two(e.n) * (1.0 + e.q));
}

inline float tanh_f32(float x) {
  return odd(x, [](double magnitude) { return tanh_of_magnitude(magnitude); });
}

/// 1 / (1 + exp(-x)).
inline float sigmoid_f32(float x) {
  const ReducedExp e = reduce_exp(limit(-double{x}, -105.0, 105.0));
  return static_cast<float>(1.0 / (1.0 + power_of_two(e.n) * (1.0 + e.q)));
}

inline float erf_f32(float x) {
  return odd(x, [](double magnitude) { return erf_of_magnitude(magnitude); });
}

/// Natural logarithm of any fp64 value; -infinity at zero, NaN below. Not meant for inner loops.
double log_f64(double x);

inline float log_f32(float x) { return static_cast<float>(log_f64(x)); }

}  // namespace zeroproof::reference::scalar_math
