#pragma once
// The conversions of R8 in integers only: nothing here can flush a subnormal or depend on a rounding mode.

#include "cuda/device/host_device.cuh"

namespace zeroproof::cuda::device {

/// value / 2^drop, rounded to nearest, ties to even. 1 <= drop <= 24.
ZP_HOST_DEVICE inline std::uint32_t drop_bits(std::uint32_t value, std::uint32_t drop) {
  const std::uint32_t kept = value >> drop;
  const std::uint32_t rest = value & ((1U << drop) - 1U);
  const std::uint32_t half = 1U << (drop - 1U);
  const bool up = rest > half || (rest == half && (kept & 1U) != 0U);
  return up ? kept + 1U : kept;
}

/// fp32 to bf16. A carry out of the fraction raises the exponent, and past the largest one makes infinity.
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
  // Below 2^-25, half of the smallest fp16 number. fp32 subnormals, which have no leading bit, are among
  // these.
  if (exponent < 102U) return static_cast<std::uint16_t>(sign);
  // From 2^-14 on (113) the leading bit survives and adds one to the exponent; below that the unit is 2^-24.
  const std::uint32_t significand = fraction | 0x800000U;
  const std::uint32_t base = exponent >= 113U ? (exponent - 113U) << 10 : 0U;
  const std::uint32_t drop = exponent >= 113U ? 13U : 126U - exponent;
  return static_cast<std::uint16_t>(sign | (base + drop_bits(significand, drop)));
}

/// bf16 to fp32: the upper half of the bits.
ZP_HOST_DEVICE inline float float_of_bf16(std::uint16_t bits) {
  return float_of(static_cast<std::uint32_t>(bits) << 16);
}

/// fp16 to fp32. Every fp16 subnormal is a normal fp32 number.
ZP_HOST_DEVICE inline float float_of_fp16(std::uint16_t bits) {
  const std::uint32_t sign = (static_cast<std::uint32_t>(bits) & 0x8000U) << 16;
  std::uint32_t exponent = (static_cast<std::uint32_t>(bits) >> 10) & 0x1FU;
  std::uint32_t fraction = bits & 0x3FFU;
  if (exponent == 31U) return float_of(sign | 0x7F800000U | (fraction << 13));
  if (exponent == 0U && fraction == 0U) return float_of(sign);
  exponent += 112U;
  if (exponent == 112U) {
    exponent = 113U;  // a subnormal has the exponent of the smallest normal number, and no leading bit yet
    while ((fraction & 0x400U) == 0U) {
      fraction <<= 1;
      --exponent;
    }
  }
  return float_of(sign | (exponent << 23) | ((fraction & 0x3FFU) << 13));
}

}  // namespace zeroproof::cuda::device
