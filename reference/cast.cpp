#include "reference/cast.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <Eigen/Core>

#include "common/base/philox.hpp"
#include "reference/checks.hpp"

namespace zeroproof::reference {
namespace {

/// An 8-bit format without its sign. Magnitude code k stands for a multiple of 2^(exponent - fraction_bits):
/// below 2^lowest_exponent that exponent is lowest_exponent (subnormals), above it is the value's own.
struct Fp8Format {
  int fraction_bits;
  int lowest_exponent;  // 1 - bias
  int largest;          // magnitude code of the largest finite value
  int infinity;         // -1: the format has none
};

constexpr Fp8Format e4m3_format{3, -6, 0x7E, -1};
constexpr Fp8Format e5m2_format{2, -14, 0x7B, 0x7C};
constexpr int fp8_sign = 0x80;
constexpr int fp8_nan = 0x7F;  // in both formats

/// To the nearest integer, ties to even; value >= 0 and small.
int nearest_even(double value) {
  const int below = static_cast<int>(value);
  const double rest = value - below;
  const bool up = rest > 0.5 || (rest == 0.5 && below % 2 == 1);
  return up ? below + 1 : below;
}

/// R8, [FP8:saturate]: to nearest even, saturating. fp64 holds every fp32 value and every quotient below
/// exactly, so only nearest_even rounds.
std::uint8_t to_fp8(float value, const Fp8Format& format) {
  if (std::isnan(value)) return fp8_nan;
  const int sign = std::signbit(value) ? fp8_sign : 0;
  if (std::isinf(value)) return static_cast<std::uint8_t>(sign | format.largest);

  const double magnitude = std::fabs(double{value});
  const int own_exponent = magnitude == 0 ? format.lowest_exponent : std::ilogb(magnitude);
  const int exponent = std::max(own_exponent, format.lowest_exponent);
  const int units = nearest_even(std::ldexp(magnitude, format.fraction_bits - exponent));

  // Codes count the values from 0 on: 2^fraction_bits of them for each exponent. A value that was rounded up
  // to the next power of two needs no care, because its units run into the next exponent's codes.
  const int code = ((exponent - format.lowest_exponent) << format.fraction_bits) + units;
  return static_cast<std::uint8_t>(sign | std::min(code, format.largest));
}

/// The definition of the format read forwards; exact.
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

/// Exact. Both kinds of value are computed and one is kept, without a branch, so that the compiler widens several at
/// once: every leaf of every step comes through here.
float from_fp16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t magnitude = bits & 0x7FFFU;
  // The fraction has 10 bits here and 23 there, the exponents are biased by 15 and 127; all ones stay all ones
  // (infinity, NaN).
  const std::uint32_t rebias = magnitude < 0x7C00U ? 112U << 23 : 224U << 23;
  const std::uint32_t normal = (magnitude << 13) + rebias;
  const auto subnormal =
      std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24F);
  const std::uint32_t is_subnormal = magnitude < 0x400U ? ~0U : 0U;
  return std::bit_cast<float>(sign | (subnormal & is_subnormal) | (normal & ~is_subnormal));
}

}  // namespace

// Eigen's 16-bit types round to nearest even in integer arithmetic and keep subnormals, which is R8; the
// tests compare them with independent code. With F16C, which this project never switches on here, Eigen would
// use the processor's instruction, which obeys R8 too. Only fp16 is widened without them.

void cast_to_bf16(const Exec&, Span<const float> source, Span<bf16> target) {
  check_same_numel("cast_to_bf16", "source", source.size(), "target", target.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    target[i].bits = Eigen::numext::bit_cast<std::uint16_t>(Eigen::bfloat16(source[i]));
  }
}

void cast_to_fp16(const Exec&, Span<const float> source, Span<fp16> target) {
  check_same_numel("cast_to_fp16", "source", source.size(), "target", target.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    target[i].bits = Eigen::numext::bit_cast<std::uint16_t>(Eigen::half(source[i]));
  }
}

void cast_to_e4m3(const Exec&, Span<const float> source, Span<e4m3> target) {
  check_same_numel("cast_to_e4m3", "source", source.size(), "target", target.size());
  for (std::size_t i = 0; i < source.size(); ++i) target[i].bits = to_fp8(source[i], e4m3_format);
}

void cast_to_e5m2(const Exec&, Span<const float> source, Span<e5m2> target) {
  check_same_numel("cast_to_e5m2", "source", source.size(), "target", target.size());
  for (std::size_t i = 0; i < source.size(); ++i) target[i].bits = to_fp8(source[i], e5m2_format);
}

void stochastic_cast_to_bf16(const Exec&, const RoundingDraw& draw, Span<const float> source,
                             Span<bf16> target) {
  check_same_numel("stochastic_cast_to_bf16", "source", source.size(), "target", target.size());
  const Philox philox(draw.seed, stochastic_rounding_stream, static_cast<std::uint32_t>(draw.step));
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (std::isnan(source[i])) {
      target[i].bits = 0x7FFF;  // adding to its bits might make an infinity of it
      continue;
    }
    // The lower half of b says how far the value lies on its way to the next bf16, in units of 2^-16 of the
    // gap. The sum carries into the upper half for exactly that share of all draws [SR:unbiased].
    const std::uint32_t b = std::bit_cast<std::uint32_t>(source[i]);
    const std::uint32_t w = philox.word(draw.first_index + i);
    target[i].bits = static_cast<std::uint16_t>((b + (w >> 16)) >> 16);
  }
}

void widen_bf16(const Exec&, Span<const bf16> source, Span<float> target) {
  check_same_numel("widen_bf16", "source", source.size(), "target", target.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    target[i] = static_cast<float>(Eigen::numext::bit_cast<Eigen::bfloat16>(source[i].bits));
  }
}

void widen_fp16(const Exec&, Span<const fp16> source, Span<float> target) {
  check_same_numel("widen_fp16", "source", source.size(), "target", target.size());
  for (std::size_t i = 0; i < source.size(); ++i) target[i] = from_fp16(source[i].bits);
}

void widen_e4m3(const Exec&, Span<const e4m3> source, Span<float> target) {
  check_same_numel("widen_e4m3", "source", source.size(), "target", target.size());
  for (std::size_t i = 0; i < source.size(); ++i) target[i] = from_fp8(source[i].bits, e4m3_format);
}

void widen_e5m2(const Exec&, Span<const e5m2> source, Span<float> target) {
  check_same_numel("widen_e5m2", "source", source.size(), "target", target.size());
  for (std::size_t i = 0; i < source.size(); ++i) target[i] = from_fp8(source[i].bits, e5m2_format);
}

}  // namespace zeroproof::reference
