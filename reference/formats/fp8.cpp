#include "reference/formats/fp8.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace zeroproof::reference {
namespace {

constexpr int fp8_sign = 0x80;
constexpr int fp8_nan = 0x7F;  // in both formats

constexpr int e8m0_bias = 127;
constexpr int e8m0_largest = 254;
constexpr int e8m0_nan = 255;

/// To the nearest integer, ties to even; value >= 0 and small.
int nearest_even(double value) {
  const int below = static_cast<int>(value);
  const double rest = value - below;
  const bool up = rest > 0.5 || (rest == 0.5 && below % 2 == 1);
  return up ? below + 1 : below;
}

/// The code of magnitudes beyond the largest finite one [FP8:saturate].
int code_beyond(const Fp8Format& format, Overflow overflow) {
  if (overflow == Overflow::saturate) return format.largest;
  return format.infinity >= 0 ? format.infinity : fp8_nan;
}

}  // namespace

std::uint8_t to_fp8(float value, const Fp8Format& format, Overflow overflow) {
  if (std::isnan(value)) return fp8_nan;
  const int sign = std::signbit(value) ? fp8_sign : 0;
  if (std::isinf(value)) return static_cast<std::uint8_t>(sign | code_beyond(format, overflow));

  // fp64 holds every fp32 value and every quotient below exactly, so only nearest_even rounds.
  const double magnitude = std::fabs(double{value});
  const int own_exponent = magnitude == 0 ? format.lowest_exponent : std::ilogb(magnitude);
  const int exponent = std::max(own_exponent, format.lowest_exponent);
  const int units = nearest_even(std::ldexp(magnitude, format.fraction_bits - exponent));

  // Codes count the values from 0 on: 2^fraction_bits of them per exponent. A value rounded up to
  // the next power of two needs no special case, because its units continue into the codes of the
  // next exponent.
  const int code = ((exponent - format.lowest_exponent) << format.fraction_bits) + units;
  const int legal = code > format.largest ? code_beyond(format, overflow) : code;
  return static_cast<std::uint8_t>(sign | legal);
}

float from_fp8(std::uint8_t bits, const Fp8Format& format) {
  const int code = bits & 0x7F;
  const bool negative = (bits & fp8_sign) != 0;
  if (code == format.infinity) {
    const float infinity = std::numeric_limits<float>::infinity();
    return negative ? -infinity : infinity;
  }
  if (code > format.largest) return std::numeric_limits<float>::quiet_NaN();

  const int hidden_bit = 1 << format.fraction_bits;
  const int fraction = code % hidden_bit;
  const int exponent_field = code / hidden_bit;
  const bool subnormal = exponent_field == 0;
  const int units = subnormal ? fraction : hidden_bit + fraction;
  const int exponent = format.lowest_exponent + (subnormal ? 0 : exponent_field - 1);
  const float magnitude = std::ldexp(static_cast<float>(units), exponent - format.fraction_bits);
  return negative ? -magnitude : magnitude;
}

std::uint8_t to_e8m0(float value) {
  if (std::isnan(value)) return e8m0_nan;
  if (std::isinf(value)) return e8m0_largest;
  if (value == 0) return 0;
  // |value| = fraction * 2^exponent with fraction in [1/2, 1), in fp64, where nothing is subnormal:
  // the smallest power of two >= |value| is 2^exponent, or |value| itself [FP8:e8m0].
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(double{value}), &exponent);
  const int up = fraction == 0.5 ? exponent - 1 : exponent;
  return static_cast<std::uint8_t>(std::clamp(up + e8m0_bias, 0, e8m0_largest));
}

float from_e8m0(std::uint8_t code) {
  if (code == e8m0_nan) return std::numeric_limits<float>::quiet_NaN();
  return std::ldexp(1.0F, code - e8m0_bias);
}

}  // namespace zeroproof::reference
