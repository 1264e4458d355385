#pragma once
// Inputs of the element-wise comparison. Element i of a family is a function of (family, i) alone: words 4 i
// .. 4 i + 3 of a Philox stream (R15), or digits of i. A difference is therefore replayed from two numbers.

#include <array>
#include <bit>
#include <cstdint>

#include "common/base/float_formats.hpp"
#include "common/base/philox.hpp"

namespace zeroproof::oracle {

inline constexpr std::uint64_t input_seed = 20240229;

/// The four operands of one element, in the order grad, master, exp_avg, exp_avg_sq (operations with fewer
/// use the first ones).
using Quad = std::array<float, 4>;

enum class Family { any_bits, special, near_subnormal, training, cast_ties, every_pattern };

inline const char* name(Family family) {
  constexpr const char* names[] = {"any_bits", "special",   "near_subnormal",
                                   "training", "cast_ties", "every_pattern"};
  return names[static_cast<int>(family)];
}

inline PhiloxBlock words(Family family, std::uint64_t index, std::uint32_t stream_of_family = 0) {
  const std::uint32_t stream = 16 * static_cast<std::uint32_t>(family) + stream_of_family;
  return philox4x32({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), 0, stream},
                    input_seed);
}

inline float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

/// Values at which formulas change their behaviour, with both signs: 1 and its neighbours, 0, smallest and
/// largest subnormal, smallest and largest normal, a square that ties at the bottom and one that overflows,
/// infinity, NaN (quiet, signalling). NaN comes last, so that the first combinations show most.
inline constexpr std::array<std::uint32_t, 14> special_magnitudes = {
    0x3F800000, 0x00000000, 0x00000001, 0x00800000, 0x7F7FFFFF, 0x3F7FFFFF, 0x3F800001,
    0x007FFFFF, 0x1A000000, 0x1A000001, 0x5F800000, 0x7F800000, 0x7FC00000, 0x7F800001};
inline constexpr std::uint64_t specials = 2 * special_magnitudes.size();

/// The digits of index in base `specials`: consecutive indices run through all combinations of all operands.
inline Quad special_quad(std::uint64_t index) {
  Quad quad;
  for (float& value : quad) {
    const auto digit = static_cast<std::uint32_t>(index % specials);
    index /= specials;
    value = from_bits(special_magnitudes[digit / 2] | digit % 2 << 31);
  }
  return quad;
}

/// All bits free, but three of four second moments are not negative: the root of a negative number is NaN,
/// and a NaN shows nothing about the lines after it.
inline Quad any_quad(std::uint64_t index) {
  const PhiloxBlock w = words(Family::any_bits, index);
  const std::uint32_t keep_sign = w[0] % 4 == 0 ? 0xFFFFFFFFU : 0x7FFFFFFFU;
  return {from_bits(w[0]), from_bits(w[1]), from_bits(w[2]), from_bits(w[3] & keep_sign)};
}

/// Values whose products, squares, moving averages and quotients come to lie around the subnormal range:
/// subnormal or barely normal; around 2^-75, where squares are subnormal; ordinary; and large divisors.
inline Quad near_subnormal_quad(std::uint64_t index) {
  const PhiloxBlock w = words(Family::near_subnormal, index);
  const std::uint32_t pick = words(Family::near_subnormal, index, 1)[0];
  constexpr std::uint32_t first_exponent[8] = {0, 0, 0, 20, 40, 40, 100, 180};
  constexpr std::uint32_t exponents[8] = {1, 3, 30, 20, 30, 60, 40, 70};
  Quad quad;
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::uint32_t range = pick >> 8 * i & 7U;
    const std::uint32_t exponent =
        first_exponent[range] + (pick >> (8 * i + 3) & 31U) * exponents[range] / 32;
    const std::uint32_t sign = i == 3 ? 0 : w[i] & 0x80000000U;
    quad[i] = from_bits(sign | exponent << 23 | (w[i] & 0x7FFFFFU));
  }
  return quad;
}

/// Four 16-bit uniforms from two words: mean 0, variance near 1, exact arithmetic.
inline float bell(std::uint32_t first, std::uint32_t second) {
  const std::uint32_t sum = (first & 0xFFFFU) + (first >> 16) + (second & 0xFFFFU) + (second >> 16);
  return (static_cast<float>(sum) - 131070.0F) * 2.64e-5F;
}

/// A master weight of exactly 0 shows every bit of the update; a larger one hides the last bits in its
/// rounding.
inline Quad with_some_zero_masters(Quad quad, std::uint64_t index) {
  if (index % 4 == 1) quad[1] = 0;
  return quad;
}

/// As in training: weights near 0.02, gradients near 1e-3, moments of the size such gradients leave behind.
inline Quad training_quad(std::uint64_t index) {
  const PhiloxBlock v = words(Family::training, index);
  const PhiloxBlock w = words(Family::training, index, 1);
  const float root = 1e-3F * bell(v[3], w[3]);
  return {1e-3F * bell(v[0], w[0]), 0.02F * bell(v[1], w[1]), 3e-4F * bell(v[2], w[2]), root * root};
}

/// Midpoints of the 16-bit formats and their neighbours in fp32: even indices bf16, odd ones fp16.
inline Quad tie_quad(std::uint64_t index) {
  const PhiloxBlock w = words(Family::cast_ties, index);
  const std::uint32_t offset = w[1] % 3 - 1;  // -1, 0 or 1, modulo 2^32
  if (index % 2 == 0) return {from_bits((w[0] & 0xFFFF0000U) + 0x8000U + offset)};
  const std::uint32_t magnitude = w[0] % 0x7C00U;
  const float below = to_float(fp16{static_cast<std::uint16_t>(magnitude)});
  const float above =
      magnitude == 0x7BFF ? 65536.0F : to_float(fp16{static_cast<std::uint16_t>(magnitude + 1)});
  const float midpoint = below + (above - below) * 0.5F;  // 12 bits: exact
  return {from_bits((std::bit_cast<std::uint32_t>(midpoint) + offset) | (w[0] & 0x80000000U))};
}

/// The first operand runs through all 2^32 patterns in a scattered order (an odd factor makes a permutation).
inline Quad pattern_quad(std::uint64_t index) {
  return {from_bits(static_cast<std::uint32_t>(index) * 0x9E3779B1U)};
}

inline Quad make_quad(Family family, std::uint64_t index) {
  switch (family) {
    case Family::any_bits:
      return with_some_zero_masters(any_quad(index), index);
    case Family::special:
      return special_quad(index);
    case Family::near_subnormal:
      return with_some_zero_masters(near_subnormal_quad(index), index);
    case Family::training:
      return with_some_zero_masters(training_quad(index), index);
    case Family::cast_ties:
      return tie_quad(index);
    case Family::every_pattern:
      return pattern_quad(index);
  }
  return {};
}

}  // namespace zeroproof::oracle
