// Test inputs of operations.

#include <array>
#include <bit>

#include "common/base/float_formats.hpp"
#include "verification/ops/op_call.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::array<std::string_view, num_fills> fill_names = {
    "exact-sum", "wide", "ties", "subnormal", "special", "training", "zero", "patterns", "sweep"};

float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

/// Four 16-bit uniforms: mean 0, variance near 1, no rounding on the way.
float bell(std::uint32_t first, std::uint32_t second) {
  const std::uint32_t sum = (first & 0xFFFFU) + (first >> 16) + (second & 0xFFFFU) + (second >> 16);
  return (static_cast<float>(sum) - 131070.0F) * 2.64e-5F;
}

/// Value of a magnitude code of an 8-bit format, also of the one just above its largest finite value.
float small_format_value(std::uint32_t code, int fraction_bits, int bias) {
  const std::uint32_t exponent = code >> fraction_bits;
  const std::uint32_t fraction = code & ((1U << fraction_bits) - 1U);
  const int power = (exponent == 0 ? 1 : static_cast<int>(exponent)) - bias - fraction_bits;
  const std::uint32_t significand = exponent == 0 ? fraction : fraction + (1U << fraction_bits);
  return static_cast<float>(significand) * from_bits(static_cast<std::uint32_t>(127 + power) << 23);
}

/// The midpoint of two neighbours; both have few bits, so it is exact.
float middle(float below, float above) { return below + (above - below) * 0.5F; }

/// A midpoint of one of the four narrow formats, its neighbours in fp32, with a sign.
float tie(std::uint64_t index, const PhiloxBlock& w) {
  const std::uint32_t offset = w[1] % 3U - 1U;  // -1, 0 or 1, modulo 2^32
  std::uint32_t bits = 0;
  switch (index % 4) {
    case 0: {  // bf16: cut after 16 bits, at every exponent of a finite number
      bits = ((w[0] % 0x7F80U) << 16) + 0x8000U;
      break;
    }
    case 1: {
      const std::uint32_t code = w[0] % 0x7C00U;
      const float above =
          code == 0x7BFF ? 65536.0F : to_float(fp16{static_cast<std::uint16_t>(code + 1)});
      bits = std::bit_cast<std::uint32_t>(
          middle(to_float(fp16{static_cast<std::uint16_t>(code)}), above));
      break;
    }
    case 2: {
      const std::uint32_t code = w[0] % 0x7FU;  // up to 448, whose upper neighbour would be 480
      bits = std::bit_cast<std::uint32_t>(
          middle(small_format_value(code, 3, 7), small_format_value(code + 1, 3, 7)));
      break;
    }
    default: {
      const std::uint32_t code = w[0] % 0x7CU;  // up to 57344, whose upper neighbour would be 65536
      bits = std::bit_cast<std::uint32_t>(
          middle(small_format_value(code, 2, 15), small_format_value(code + 1, 2, 15)));
    }
  }
  return from_bits((bits + offset) | (w[2] & 0x80000000U));
}

/// Subnormal or barely normal; around 2^-75, where squares are subnormal; or ordinary.
float near_subnormal(const PhiloxBlock& w) {
  constexpr std::array<std::uint32_t, 4> first_exponent = {0, 1, 40, 100};
  constexpr std::array<std::uint32_t, 4> exponents = {1, 3, 24, 30};
  const std::uint32_t range = w[3] % 4U;
  const std::uint32_t exponent = first_exponent[range] + (w[3] >> 8) % exponents[range];
  return from_bits((w[0] & 0x80000000U) | exponent << 23 | (w[1] & 0x7FFFFFU));
}

/// Values at which formulas change their behaviour. NaN and infinity are rare, because they hide
/// later errors.
float special(const PhiloxBlock& w) {
  constexpr std::array<std::uint32_t, 32> magnitudes = {
      0x00000000, 0x3F800000, 0x3F7FFFFF, 0x3F800001, 0x00000001, 0x007FFFFF, 0x00800000,
      0x00800001, 0x7F7FFFFF, 0x60AD78EC, 0x15F79688, 0x1A000000, 0x1A000001, 0x5F800000,
      0x5F7FFFFF, 0x477FF000, 0x477FEFFF, 0x33000000, 0x33000001, 0x3B800000, 0x43E80000,
      0x43E80001, 0x47700000, 0x37000000, 0x3DCCCCCD, 0x42C80000, 0x38D1B717, 0x00000000,
      0x7F800000, 0x7FC00000, 0x7F800001, 0x3F000000};
  return from_bits(magnitudes[w[0] % magnitudes.size()] | (w[1] & 0x80000000U));
}

float training(Content content, const PhiloxBlock& w) {
  const float unit = bell(w[0], w[1]);
  switch (content) {
    case Content::weight:
      return 0.02F * unit;
    case Content::moment:
      return 3e-4F * unit;
    case Content::second_moment:
      return 1e-3F * unit * (1e-3F * unit);
    default:
      return 1e-3F * unit;
  }
}

float any_value(Fill fill, Content content, std::uint64_t index, const PhiloxBlock& w) {
  switch (fill) {
    case Fill::exact_sum:
      return static_cast<float>(w[0] % 65U) - 32.0F;
    case Fill::wide:
      return from_bits((w[2] & 0x80000000U) | (1U + w[0] % 254U) << 23 | (w[1] & 0x7FFFFFU));
    case Fill::ties:
      return tie(index, w);
    case Fill::subnormal:
      return near_subnormal(w);
    case Fill::special:
      return special(w);
    case Fill::training:
      return training(content, w);
    case Fill::patterns:
    case Fill::sweep:
      return from_bits(static_cast<std::uint32_t>(index) * 0x9E3779B1U);
    case Fill::zero:
      break;
  }
  return 0.0F;
}

}  // namespace

std::string_view name(Fill fill) { return fill_names[static_cast<std::size_t>(fill)]; }

std::optional<Fill> parse_fill(const std::string& text) {
  for (int i = 0; i < num_fills; ++i) {
    if (name(static_cast<Fill>(i)) == text) return static_cast<Fill>(i);
  }
  return std::nullopt;
}

float fill_value(Fill fill, Content content, std::uint64_t index, const PhiloxBlock& words) {
  const float value = any_value(fill, content, index, words);
  // The root of a negative number is NaN, which hides later errors: one in sixteen is enough.
  if (content != Content::second_moment || fill == Fill::zero || words[3] % 16U == 0) return value;
  return from_bits(std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU);
}

}  // namespace zeroproof::verification
