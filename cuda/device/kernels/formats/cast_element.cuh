#pragma once
// The conversions of R8 in integers only: nothing here can flush a subnormal or depend on a rounding mode.

#include "cuda/device/kernels/base/host_device.cuh"

namespace zeroproof::cuda::device {

/// The bits of an amax that is infinite.
inline constexpr std::uint32_t infinite_amax = 0x7F800000U;

/// value / 2^drop, rounded to nearest, ties to even. 1 <= drop <= 24.
ZP_HOST_DEVICE inline std::uint32_t drop_bits(std::uint32_t value, std::uint32_t drop) {
  const std::uint32_t kept = value >> drop;
  const std::uint32_t rest = value & ((1U << drop) - 1U);
  const std::uint32_t half = 1U << (drop - 1U);
  const bool up = rest > half || (rest == half && (kept & 1U) != 0U);
  return up ? kept + 1U : kept;
}

/// fp32 to bf16. A carry out of the fraction increments the exponent; past the largest one the
/// result is infinity.
ZP_HOST_DEVICE inline std::uint16_t bf16_bits(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return 0x7FFFU;
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  return static_cast<std::uint16_t>(sign | drop_bits(magnitude, 16U));
}

/// fp32 to fp16.
ZP_HOST_DEVICE inline std::uint16_t fp16_bits(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t exponent = (bits >> 23) & 0xFFU;
  const std::uint32_t fraction = bits & 0x7FFFFFU;
  if (exponent == 255U && fraction != 0U) return 0x7FFFU;
  if (exponent > 142U) return static_cast<std::uint16_t>(sign | 0x7C00U);  // 2^16 and above
  // Below 2^-25, half of the smallest fp16 number, which includes fp32 subnormals (no leading bit).
  if (exponent < 102U) return static_cast<std::uint16_t>(sign);
  // From 2^-14 (exponent field 113) on, the leading bit remains and adds one to the exponent;
  // below, the unit is 2^-24.
  const std::uint32_t significand = fraction | 0x800000U;
  const std::uint32_t base = exponent >= 113U ? (exponent - 113U) << 10 : 0U;
  const std::uint32_t drop = exponent >= 113U ? 13U : 126U - exponent;
  return static_cast<std::uint16_t>(sign | (base + drop_bits(significand, drop)));
}

/// fp32 to an 8-bit format whose NaN is 0x7F and whose largest finite magnitude is `largest`.
/// Larger magnitudes, including infinity, become `largest`.
template <std::uint32_t fraction_bits, std::uint32_t bias, std::uint32_t largest>
ZP_HOST_DEVICE inline std::uint8_t eight_bits(float value) {
  constexpr std::uint32_t first_normal =
      128U - bias;  // fp32 exponent field of the format's smallest normal number
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t sign = (bits >> 24) & 0x80U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  const std::uint32_t exponent = magnitude >> 23;
  if (magnitude > 0x7F800000U) return 0x7FU;
  // Below half of the smallest subnormal number, which includes fp32 subnormals (no leading bit).
  if (exponent + fraction_bits + 1U < first_normal) return static_cast<std::uint8_t>(sign);
  const std::uint32_t significand = (bits & 0x7FFFFFU) | 0x800000U;
  const bool normal = exponent >= first_normal;
  // The leading bit of a normal number remains and adds one to the exponent field.
  const std::uint32_t base = normal ? (exponent - first_normal) << fraction_bits : 0U;
  const std::uint32_t drop = 23U - fraction_bits + (normal ? 0U : first_normal - exponent);
  const std::uint32_t rounded = base + drop_bits(significand, drop);
  return static_cast<std::uint8_t>(sign | (rounded > largest ? largest : rounded));
}

ZP_HOST_DEVICE inline std::uint8_t e4m3_bits(float value) { return eight_bits<3, 7, 0x7E>(value); }
ZP_HOST_DEVICE inline std::uint8_t e5m2_bits(float value) { return eight_bits<2, 15, 0x7B>(value); }

/// fp32 to e4m3 without saturation: NaN beyond its range; e5m2 below: infinity.
ZP_HOST_DEVICE inline std::uint8_t nonfinite_e4m3_bits(float value) {
  const std::uint32_t magnitude = bits_of(value) & 0x7FFFFFFFU;
  return magnitude > 0x43E80000U ? 0x7FU : e4m3_bits(value);  // 464, which rounds to 448
}

ZP_HOST_DEVICE inline std::uint8_t nonfinite_e5m2_bits(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  const bool beyond =
      magnitude >= 0x47700000U && magnitude <= 0x7F800000U;  // from 61440 on, rounds above 57344
  return beyond ? static_cast<std::uint8_t>(((bits >> 24) & 0x80U) | 0x7CU) : e5m2_bits(value);
}

/// fp32 to e8m0: the exponent of the smallest power of two that is at least the magnitude.
ZP_HOST_DEVICE inline std::uint8_t e8m0_bits(float value) {
  const std::uint32_t magnitude = bits_of(value) & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return 0xFFU;
  if (magnitude <= 0x00400000U) return 0U;    // 2^-127
  if (magnitude > 0x7F000000U) return 0xFEU;  // 2^127
  return static_cast<std::uint8_t>((magnitude + 0x007FFFFFU) >> 23);
}

/// e8m0 to fp32.
ZP_HOST_DEVICE inline float float_of_e8m0(std::uint8_t bits) {
  if (bits == 0xFFU) return float_of(0x7FFFFFFFU);
  return float_of(bits == 0U ? 0x00400000U : static_cast<std::uint32_t>(bits) << 23);
}

/// fp32 to bf16, rounded up or down by the upper half of the random word (R8).
ZP_HOST_DEVICE inline std::uint16_t stochastic_bf16_bits(float value, std::uint32_t word) {
  const std::uint32_t bits = bits_of(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return 0x7FFFU;
  return static_cast<std::uint16_t>((bits + (word >> 16)) >> 16);
}

/// bf16 to fp32: the upper half of the bits.
ZP_HOST_DEVICE inline float float_of_bf16(std::uint16_t bits) {
  return float_of(static_cast<std::uint32_t>(bits) << 16);
}

/// A format with an IEEE exponent range to fp32; sign, exponent and fraction are the fields of its
/// bits. Every subnormal of the format is a normal fp32 number.
template <std::uint32_t fraction_bits, std::uint32_t bias>
ZP_HOST_DEVICE inline float float_of_parts(std::uint32_t sign, std::uint32_t exponent,
                                           std::uint32_t fraction) {
  constexpr std::uint32_t leading_bit = 1U << fraction_bits;
  if (exponent == 0U) {
    if (fraction == 0U) return float_of(sign << 31);
    exponent =
        1U;  // a subnormal has the exponent of the smallest normal number, and no leading bit yet
    while ((fraction & leading_bit) == 0U) {
      fraction <<= 1;
      --exponent;  // may wrap below zero; adding the bias difference makes it positive
    }
    fraction -= leading_bit;
  }
  return float_of((sign << 31) | ((exponent + 127U - bias) << 23) |
                  (fraction << (23U - fraction_bits)));
}

/// fp16 to fp32.
ZP_HOST_DEVICE inline float float_of_fp16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits) >> 15;
  const std::uint32_t exponent = (static_cast<std::uint32_t>(bits) >> 10) & 0x1FU;
  const std::uint32_t fraction = bits & 0x3FFU;
  if (exponent == 31U) return float_of((sign << 31) | 0x7F800000U | (fraction << 13));
  return float_of_parts<10, 15>(sign, exponent, fraction);
}

/// e5m2 to fp32, infinities and NaN as in fp16.
ZP_HOST_DEVICE inline float float_of_e5m2(std::uint8_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits) >> 7;
  const std::uint32_t exponent = (static_cast<std::uint32_t>(bits) >> 2) & 0x1FU;
  const std::uint32_t fraction = bits & 0x3U;
  if (exponent == 31U) return float_of((sign << 31) | 0x7F800000U | (fraction << 21));
  return float_of_parts<2, 15>(sign, exponent, fraction);
}

/// e4m3 to fp32. The top exponent belongs to ordinary numbers, except with a full fraction.
ZP_HOST_DEVICE inline float float_of_e4m3(std::uint8_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits) >> 7;
  if ((bits & 0x7FU) == 0x7FU) return float_of((sign << 31) | 0x7FC00000U);
  return float_of_parts<3, 7>(sign, (static_cast<std::uint32_t>(bits) >> 3) & 0xFU, bits & 0x7U);
}

}  // namespace zeroproof::cuda::device
