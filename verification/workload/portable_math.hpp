#pragma once
// exp, tanh and log that give the same bits with every libc, compiler and instruction set (R18).
//
// The arithmetic is fp64, one rounding per written operation. Nothing here branches on its argument, so loops
// over these functions can be vectorised. Domain: every value of the argument type. NaN gives NaN.
//
// Largest error found, in units in the last place of the result, against libm in the next wider type:
//   exp_f32 0.5, tanh_f32 0.5    over every fp32 value: both are correctly rounded
//   exp_f64 1.14, tanh_f64 3.34, log_f64 1.99    over 3e7 random arguments of all sizes

#include <bit>
#include <cstdint>

namespace zeroproof::workload {
namespace portable_math {

inline constexpr double log2_e = 0x1.71547652b82fep+0;
// ln 2 in two parts. The first has 33 significant bits, so its product with an integer below 2^20 is exact.
inline constexpr double ln2_high = 0x1.62e42fee00000p-1;
inline constexpr double ln2_low = 0x1.a39ef35793c76p-33;
// Adding this number rounds to an integer (ties to even) and leaves that integer in the low bits of the sum.
inline constexpr double round_shift = 0x1.8p52;

/// exp(x) = 2^n * (1 + q) with |ln(1 + q)| <= ln(2) / 2.
struct ReducedExp {
  std::int64_t n;
  double q;
};

/// |x| < 2^20 or NaN.
inline ReducedExp reduce_exp(double x) {
  const double shifted = x * log2_e + round_shift;
  const double n = shifted - round_shift;
  const double r = (x - n * ln2_high) - n * ln2_low;
  // Taylor series of (exp(r) - 1) / r to r^12; what it leaves out is below 2^-57 for |r| <= 0.3466.
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
  // From 22 on the result is 1. p = exp(2x) - 1 is accurate near 0 too, where exp(2x) alone would cancel.
  const ReducedExp e = reduce_exp(2.0 * limit(x, 0.0, 22.0));
  const double scale = power_of_two(e.n);
  const double p = scale * e.q + (scale - 1.0);
  return p / (p + 2.0);
}

}  // namespace portable_math

inline float exp_f32(float x) {
  using namespace portable_math;
  // exp(-105) rounds to 0 and exp(89) to infinity.
  const ReducedExp e = reduce_exp(limit(x, -105.0, 89.0));
  return static_cast<float>(power_of_two(e.n) * (1.0 + e.q));
}

inline double exp_f64(double x) {
  using namespace portable_math;
  const ReducedExp e = reduce_exp(limit(x, -746.0, 710.0));
  // Two factors, because 2^n alone may leave the normal numbers (n goes from -1076 to 1024).
  const std::int64_t half = e.n >> 1;
  return ((1.0 + e.q) * power_of_two(half)) * power_of_two(e.n - half);
}

inline float tanh_f32(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const double magnitude = std::bit_cast<float>(bits & 0x7FFFFFFFU);
  const auto result = static_cast<float>(portable_math::tanh_of_magnitude(magnitude));
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(result) | (bits & 0x80000000U));
}

inline double tanh_f64(double x) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  const double magnitude = std::bit_cast<double>(bits & 0x7FFFFFFFFFFFFFFFU);
  const double result = portable_math::tanh_of_magnitude(magnitude);
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(result) | (bits & 0x8000000000000000U));
}

/// Natural logarithm; -infinity at zero, NaN below. Not made for inner loops.
double log_f64(double x);

// The same names for both element types of the model.
inline float exp_real(float x) { return exp_f32(x); }
inline double exp_real(double x) { return exp_f64(x); }
inline float tanh_real(float x) { return tanh_f32(x); }
inline double tanh_real(double x) { return tanh_f64(x); }

}  // namespace zeroproof::workload
