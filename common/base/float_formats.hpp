#pragma once
// Bit-level conversions of the 16-bit and 8-bit formats, for workloads, reports and checks. The
// operations of contracts/cast.hpp do not use them; tests/common proves these functions by
// exhaustion.

#include <bit>
#include <concepts>
#include <cstdint>

#include "common/base/span.hpp"

namespace zeroproof {

/// For code that is written for every format: fp32 needs no conversion.
template <std::same_as<float> T>
float to_float(T value) {
  return value;
}

/// Exact.
inline float to_float(bf16 value) { return std::bit_cast<float>(std::uint32_t{value.bits} << 16); }

/// Exact.
inline float to_float(fp16 value) {
  const std::uint32_t sign = std::uint32_t{value.bits} >> 15 << 31;
  const std::uint32_t exponent = value.bits >> 10 & 0x1FU;
  const std::uint32_t fraction = value.bits & 0x3FFU;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000U | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  // Subnormal or zero: fraction * 2^-24, a product that fp32 represents exactly.
  const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

/// Exact.
inline float to_float(e5m2 value) {
  return to_float(fp16{static_cast<std::uint16_t>(value.bits << 8)});
}

/// Exact: (-1)^sign * 2^(exponent - 7) * 1.fraction, or fraction * 2^-9 below 2^-6.
inline float to_float(e4m3 value) {
  const std::uint32_t sign = std::uint32_t{value.bits} >> 7 << 31;
  const std::uint32_t magnitude = value.bits & 0x7FU;
  if (magnitude == 0x7FU) return std::bit_cast<float>(sign | 0x7FC00000U);
  if (magnitude >= 8) return std::bit_cast<float>(sign | ((magnitude << 20) + (120U << 23)));
  return std::bit_cast<float>(
      sign | std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-9F));
}

/// Exact: 2^(bits - 127), of which the smallest is a subnormal fp32.
inline float to_float(e8m0 value) {
  if (value.bits == 0xFFU) return std::bit_cast<float>(0x7FFFFFFFU);
  return std::bit_cast<float>(value.bits == 0 ? 0x00400000U : std::uint32_t{value.bits} << 23);
}

/// To nearest, ties to even; NaN becomes the canonical NaN.
inline bf16 to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return {0x7FFF};
  const std::uint32_t round_up_below = 0x7FFFU + (bits >> 16 & 1U);
  return {static_cast<std::uint16_t>((bits + round_up_below) >> 16)};
}

/// To nearest, ties to even, with subnormals; too large becomes infinity; NaN becomes the canonical NaN.
inline fp16 to_fp16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return {0x7FFF};
  if (magnitude >= 0x477FF000U)
    return {static_cast<std::uint16_t>(sign | 0x7C00U)};  // 65520 and above
  if (magnitude <
      0x38800000U) {  // below 2^-14: count units of 2^-24; the addition rounds to nearest even
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return {
        static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3F000000U))};
  }
  const std::uint32_t round_up_below = 0xFFFU + (magnitude >> 13 & 1U);
  return {static_cast<std::uint16_t>(sign | (magnitude - 0x38000000U + round_up_below) >> 13)};
}

/// The value of a bit pattern of a float format. Exact.
template <class Format>
double value_of(std::uint64_t bits) {
  const auto value = std::bit_cast<typename Format::type>(static_cast<typename Format::Bits>(bits));
  if constexpr (sizeof(value) == sizeof(double)) {
    return value;
  } else {
    return static_cast<double>(to_float(value));
  }
}

inline void narrow(float value, float& target) { target = value; }
inline void narrow(float value, bf16& target) { target = to_bf16(value); }
inline void narrow(float value, fp16& target) { target = to_fp16(value); }

/// Element i of gradients or parameters (is_param_format), widened.
inline float load_element(const TensorView& view, std::int64_t i) {
  return visit_param_format(view.dtype, [&](auto format) {
    return to_float(static_cast<const typename decltype(format)::type*>(view.data)[i]);
  });
}

/// Stores value as element i, rounded to nearest even.
inline void store_element(const TensorView& view, std::int64_t i, float value) {
  visit_param_format(view.dtype, [&](auto format) {
    narrow(value, static_cast<typename decltype(format)::type*>(view.data)[i]);
  });
}

}  // namespace zeroproof
