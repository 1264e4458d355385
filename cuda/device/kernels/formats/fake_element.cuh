#pragma once
// Fake quantization (R26) of one element.

#include "common/contracts/fake_quantize.hpp"
#include "common/contracts/scale_recipe.hpp"
#include "cuda/device/kernels/base/host_device.cuh"
#include "cuda/device/kernels/formats/cast_element.cuh"
#include "cuda/device/kernels/formats/part_blocks.cuh"

namespace zeroproof::cuda::device {

inline constexpr std::uint32_t smallest_amax_bits = 0x33800000U;  // 2^-24

/// The bits of an amax; every NaN has the same bits.
ZP_HOST_DEVICE inline std::uint32_t amax_with_one_nan(std::uint32_t bits) {
  return bits > infinite_amax ? 0x7FFFFFFFU : bits;
}

/// Integers of a given number of bits.
struct Integers {
  float top, low;  // magnitudes of the largest and the smallest integer

  explicit Integers(const FakeQuantization& options)
      : top(static_cast<float>((1 << (options.bits - 1)) - 1)),
        low(options.narrow ? top : top + 1.0F) {}

  ZP_HOST_DEVICE float code(float value, float scale) const {
    const std::uint32_t bits = bits_of(value * scale);
    const std::uint32_t sign = bits & sign_bit, magnitude = bits & ~sign_bit;
    if (magnitude > infinite_amax) return float_of(0x7FFFFFFFU);
    const float limit = sign != 0U ? low : top;
    if (magnitude >= bits_of(limit)) return float_of(bits_of(limit) | sign);
    const float rounded =
        (float_of(magnitude) + 8388608.0F) - 8388608.0F;  // 2^23 leaves no bits for a fraction
    return float_of(bits_of(rounded) | sign);
  }
};

/// To an 8-bit format and back. amax: bits with one NaN.
template <bool is_e4m3>
ZP_HOST_DEVICE inline float fake_fp8_of(float top, std::uint32_t amax, float value) {
  const float scale = top / (amax <= smallest_amax_bits ? 1.0F : float_of(amax));
  const float scaled = value * scale;
  const float scale_inv = 1.0F / scale;
  const float widened =
      is_e4m3 ? float_of_e4m3(e4m3_bits(scaled)) : float_of_e5m2(e5m2_bits(scaled));
  return widened * scale_inv;
}

/// To an integer and back. amax: bits with one NaN.
ZP_HOST_DEVICE inline float fake_integer_of(const Integers& integers, std::uint32_t amax,
                                            float value) {
  if (amax <= smallest_amax_bits)
    return (bits_of(value) & ~sign_bit) > infinite_amax ? value : 0.0F;
  const float scale = integers.top / float_of(amax);
  return integers.code(value, scale) / scale;
}

/// Formats as types, so that each kernel is compiled for one format. Host only: the largest values
/// come from a table.
struct ToIntegers {
  Integers integers;

  explicit ToIntegers(const FakeQuantization& options) : integers(options) {}

  ZP_HOST_DEVICE float operator()(std::uint32_t amax, float value) const {
    return fake_integer_of(integers, amax, value);
  }
};

template <bool is_e4m3>
struct ToFp8 {
  float top = largest_of(is_e4m3 ? Fp8::e4m3 : Fp8::e5m2);

  ZP_HOST_DEVICE float operator()(std::uint32_t amax, float value) const {
    return fake_fp8_of<is_e4m3>(top, amax, value);
  }
};

/// Calls body(element) with the element function of the options' format.
template <class Body>
void with_fake_element(const FakeQuantization& options, const Body& body) {
  if (options.format == FakeFormat::integer) return body(ToIntegers(options));
  if (options.format == FakeFormat::e4m3) return body(ToFp8<true>{});
  return body(ToFp8<false>{});
}

}  // namespace zeroproof::cuda::device
