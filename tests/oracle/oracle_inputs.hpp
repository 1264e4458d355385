#pragma once
// Inputs of the element-wise comparison. Element i of a family is a function of (family, i) alone:
// words of Philox streams (R15), or digits of i. Two numbers are therefore enough to replay a
// difference.

#include <array>
#include <bit>
#include <cstdint>

#include "common/base/float_formats.hpp"
#include "common/base/philox.hpp"

namespace zeroproof::oracle {

inline constexpr std::uint64_t input_seed = 20240229;

/// The operands of one element, in the order grad, master, exp_avg or momentum_buffer, exp_avg_sq,
/// max_exp_avg_sq (operations with fewer use the first ones).
inline constexpr std::size_t most_operands = 5;
using Element = std::array<float, most_operands>;

enum class Family { any_bits, special, near_subnormal, training, cast_ties, every_pattern };

inline const char* name(Family family) {
  constexpr const char* names[] = {"any_bits", "special",   "near_subnormal",
                                   "training", "cast_ties", "every_pattern"};
  return names[static_cast<int>(family)];
}

inline PhiloxBlock words(Family family, std::uint64_t index, std::uint32_t stream_of_family = 0) {
  const std::uint32_t stream = 16 * static_cast<std::uint32_t>(family) + stream_of_family;
  return philox4x32(
      {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), 0, stream},
      input_seed);
}

inline float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

/// Values at which formulas change their behaviour, with both signs: 1 and its neighbours, 0,
/// smallest and largest subnormal, smallest and largest normal, a square that ties at the bottom
/// and one that overflows, infinity, NaN (quiet, signalling).
inline constexpr std::array<std::uint32_t, 14> special_magnitudes = {
    0x3F800000, 0x00000000, 0x00000001, 0x00800000, 0x7F7FFFFF, 0x3F7FFFFF, 0x3F800001,
    0x007FFFFF, 0x1A000000, 0x1A000001, 0x5F800000, 0x7F800000, 0x7FC00000, 0x7F800001};
inline constexpr std::uint64_t specials = 2 * special_magnitudes.size();

/// The digits of a number in base `specials`: all combinations of all operands occur once before
/// one repeats, in an order with much variation of every operand early (the factor has neither 2
/// nor 7 in it, so it permutes).
inline Element special_element(std::uint64_t index) {
  constexpr std::uint64_t combinations = specials * specials * specials * specials * specials;
  std::uint64_t digits = index % combinations * 7368787 % combinations;
  Element element;
  for (float& value : element) {
    const auto digit = static_cast<std::uint32_t>(digits % specials);
    digits /= specials;
    value = from_bits(special_magnitudes[digit / 2] | digit % 2 << 31);
  }
  return element;
}

/// All bits free, but three of four second moments are not negative: the root of a negative number
/// is NaN, and a NaN hides the lines after it.
inline Element any_element(std::uint64_t index) {
  const PhiloxBlock w = words(Family::any_bits, index);
  const std::uint32_t top = words(Family::any_bits, index, 1)[0];
  const std::uint32_t keep_sign = w[0] % 4 == 0 ? 0xFFFFFFFFU : 0x7FFFFFFFU;
  return {from_bits(w[0]), from_bits(w[1]), from_bits(w[2]), from_bits(w[3] & keep_sign),
          from_bits(top & keep_sign)};
}

/// Values whose products, squares, moving averages and quotients are around the subnormal range:
/// subnormal or barely normal; around 2^-75, where squares are subnormal; ordinary; and large
/// divisors.
inline Element near_subnormal_element(std::uint64_t index) {
  const PhiloxBlock w = words(Family::near_subnormal, index);
  const PhiloxBlock pick = words(Family::near_subnormal, index, 1);
  constexpr std::uint32_t first_exponent[8] = {0, 0, 0, 20, 40, 40, 100, 180};
  constexpr std::uint32_t exponents[8] = {1, 3, 30, 20, 30, 60, 40, 70};
  Element element;
  for (std::uint32_t i = 0; i < most_operands; ++i) {
    const std::uint32_t choice = pick[i / 4] >> 8 * (i % 4);
    const std::uint32_t word = i < 4 ? w[i] : pick[2];
    const std::uint32_t exponent =
        first_exponent[choice & 7U] + (choice >> 3 & 31U) * exponents[choice & 7U] / 32;
    const std::uint32_t sign = i >= 3 ? 0 : word & 0x80000000U;
    element[i] = from_bits(sign | exponent << 23 | (word & 0x7FFFFFU));
  }
  return element;
}

/// Four 16-bit uniforms from two words: mean 0, variance near 1, exact arithmetic.
inline float bell(std::uint32_t first, std::uint32_t second) {
  const std::uint32_t sum = (first & 0xFFFFU) + (first >> 16) + (second & 0xFFFFU) + (second >> 16);
  return (static_cast<float>(sum) - 131070.0F) * 2.64e-5F;
}

/// With a master weight of 0 every bit of the update is in the result; with a larger one the last
/// bits are rounded off.
inline Element with_some_zero_masters(Element element, std::uint64_t index) {
  if (index % 4 == 1) element[1] = 0;
  return element;
}

/// As in training: weights near 0.02, gradients near 1e-3, moments of the size that such gradients
/// give, and a maximum of second moments sometimes above and sometimes below the next one.
inline Element training_element(std::uint64_t index) {
  const PhiloxBlock v = words(Family::training, index);
  const PhiloxBlock w = words(Family::training, index, 1);
  const float root = 1e-3F * bell(v[3], w[3]);
  const float square = root * root;
  return {1e-3F * bell(v[0], w[0]), 0.02F * bell(v[1], w[1]), 3e-4F * bell(v[2], w[2]), square,
          square * (0.5F + 0x1p-16F * static_cast<float>(v[3] >> 16))};
}

/// Midpoints of the narrow formats and their neighbours in fp32: bf16, fp16, e4m3 and e5m2 in turn.
inline Element tie_element(std::uint64_t index) {
  const PhiloxBlock w = words(Family::cast_ties, index);
  const std::uint32_t offset = w[1] % 3 - 1;  // -1, 0 or 1, modulo 2^32
  float below = 0, above = 0;
  if (index % 4 == 0) return {from_bits((w[0] & 0xFFFF0000U) + 0x8000U + offset)};
  if (index % 4 == 1) {
    const std::uint32_t code = w[0] % 0x7C00U;
    below = to_float(fp16{static_cast<std::uint16_t>(code)});
    above = code == 0x7BFF ? 65536.0F : to_float(fp16{static_cast<std::uint16_t>(code + 1)});
  } else if (index % 4 == 2) {
    const std::uint32_t code = w[0] % 0x7FU;
    below = to_float(e4m3{static_cast<std::uint8_t>(code)});
    above = code == 0x7E ? 480.0F : to_float(e4m3{static_cast<std::uint8_t>(code + 1)});
  } else {
    const std::uint32_t code = w[0] % 0x7CU;
    below = to_float(e5m2{static_cast<std::uint8_t>(code)});
    above = code == 0x7B ? 65536.0F : to_float(e5m2{static_cast<std::uint8_t>(code + 1)});
  }
  const float midpoint = below + (above - below) * 0.5F;  // few bits: exact
  return {from_bits((std::bit_cast<std::uint32_t>(midpoint) + offset) | (w[0] & 0x80000000U))};
}

/// The first operand takes all 2^32 patterns in a scattered order (an odd factor makes a
/// permutation).
inline Element pattern_element(std::uint64_t index) {
  return {from_bits(static_cast<std::uint32_t>(index) * 0x9E3779B1U)};
}

inline Element make_element(Family family, std::uint64_t index) {
  switch (family) {
    case Family::any_bits:
      return with_some_zero_masters(any_element(index), index);
    case Family::special:
      return special_element(index);
    case Family::near_subnormal:
      return with_some_zero_masters(near_subnormal_element(index), index);
    case Family::training:
      return with_some_zero_masters(training_element(index), index);
    case Family::cast_ties:
      return tie_element(index);
    case Family::every_pattern:
      return pattern_element(index);
  }
  return {};
}

}  // namespace zeroproof::oracle
