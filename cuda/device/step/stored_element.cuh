#pragma once
// Elements of state stored as codes (R25): load and store, four at a time or one by one.

#include "common/step/state_format.hpp"
#include "cuda/device/kernels/base/pack.cuh"
#include "cuda/device/kernels/formats/cast_element.cuh"
#include "cuda/device/kernels/formats/scale_element.cuh"
#include "cuda/device/step/few_values.cuh"
#include "cuda/device/step/param_cast.cuh"
#include "cuda/device/step/stored_passes.hpp"

namespace zeroproof::cuda::device {

/// Elements of a block per lane of a warp.
inline constexpr int lane_numel = 4;

/// Selection of a lane's elements: four adjacent ones if they start a vector in every buffer,
/// otherwise every 32nd.
struct LaneElements {
  std::int64_t local;  ///< index of the first one in the shard
  int i;               ///< index of the first one in the piece
  int apart;           ///< distance from one to the next
  int count;           ///< 0 to lane_numel

  ZP_HOST_DEVICE bool packed() const { return apart == 1 && count == lane_numel; }
};

ZP_HOST_DEVICE inline bool is_scaled(StateFormat format) {
  return format == StateFormat::fp16 || format == StateFormat::e4m3;
}

/// R22's recipe `current`, with epsilon 0 and not a power of two.
ZP_HOST_DEVICE inline float state_scale(StateFormat format, std::uint32_t amax) {
  return CurrentScale{format == StateFormat::e4m3 ? 448.0F : 65504.0F, 0.0F, false}(amax);
}

/// e4m3 to fp32 without a loop: the exponents' biases differ by 120, so the factor is 2^120, and
/// the product is exact for subnormals too. The same bits as float_of_e4m3.
ZP_HOST_DEVICE inline float widened_e4m3(std::uint32_t code) {
  const float scaled = float_of((code & 0x7FU) << 20) * 0x1p120F;
  const std::uint32_t bits = (code & 0x7FU) == 0x7FU ? 0x7FC00000U : bits_of(scaled);
  return float_of(bits | (code & 0x80U) << 24);
}

/// q of R25, widened.
ZP_HOST_DEVICE inline float widened_code(StateFormat format, std::uint32_t code) {
  if (format == StateFormat::bf16) return float_of(code << 16);
  return format == StateFormat::fp16 ? widened_fp16(code) : widened_e4m3(code);
}

/// A value, or a value times its scale, as a code. Nonfinite values remain nonfinite.
ZP_HOST_DEVICE inline std::uint32_t narrowed_code(StateFormat format, float value) {
  if (format == StateFormat::bf16) return bf16_bits(value);
  return format == StateFormat::fp16 ? fp16_bits(value) : nonfinite_e4m3_bits(value);
}

ZP_DEVICE inline Pack<float> load_values(const float* from, const LaneElements& at) {
  if (at.packed()) return load_pack(from + at.local);
  Pack<float> values{};
  ZP_UNROLL
  for (int k = 0; k < lane_numel; ++k)
    if (k < at.count) values.v[k] = from[at.local + at.apart * k];
  return values;
}

ZP_DEVICE inline void store_values(float* to, const LaneElements& at, const Pack<float>& values) {
  if (at.packed()) return store_pack(to + at.local, values);
  ZP_UNROLL
  for (int k = 0; k < lane_numel; ++k)
    if (k < at.count) to[at.local + at.apart * k] = values.v[k];
}

/// 16-bit codes; those of missing elements are 0.
ZP_DEVICE inline Words<lane_numel> load_halves(const std::uint16_t* from, const LaneElements& at) {
  Words<lane_numel> codes{};
  if (at.packed()) {
    const HalfPack two = *reinterpret_cast<const HalfPack*>(from + at.local);
    ZP_UNROLL
    for (int k = 0; k < lane_numel; ++k) codes.v[k] = two.v[k / 2] >> (k % 2 * 16) & 0xFFFFU;
    return codes;
  }
  ZP_UNROLL
  for (int k = 0; k < lane_numel; ++k)
    if (k < at.count) codes.v[k] = from[at.local + at.apart * k];
  return codes;
}

ZP_DEVICE inline void store_halves(std::uint16_t* to, const LaneElements& at,
                                   const Words<lane_numel>& codes) {
  if (at.packed()) {
    *reinterpret_cast<HalfPack*>(to + at.local) = {
        {codes.v[0] | codes.v[1] << 16, codes.v[2] | codes.v[3] << 16}};
    return;
  }
  ZP_UNROLL
  for (int k = 0; k < lane_numel; ++k)
    if (k < at.count) to[at.local + at.apart * k] = static_cast<std::uint16_t>(codes.v[k]);
}

/// The same for 8 bits.
ZP_DEVICE inline Words<lane_numel> load_bytes(const std::uint8_t* from, const LaneElements& at) {
  Words<lane_numel> codes{};
  if (at.packed()) {
    const std::uint32_t word = *reinterpret_cast<const std::uint32_t*>(from + at.local);
    ZP_UNROLL
    for (int k = 0; k < lane_numel; ++k) codes.v[k] = word >> (8 * k) & 0xFFU;
    return codes;
  }
  ZP_UNROLL
  for (int k = 0; k < lane_numel; ++k)
    if (k < at.count) codes.v[k] = from[at.local + at.apart * k];
  return codes;
}

ZP_DEVICE inline void store_bytes(std::uint8_t* to, const LaneElements& at,
                                  const Words<lane_numel>& codes) {
  if (at.packed()) {
    *reinterpret_cast<std::uint32_t*>(to + at.local) =
        codes.v[0] | codes.v[1] << 8 | codes.v[2] << 16 | codes.v[3] << 24;
    return;
  }
  ZP_UNROLL
  for (int k = 0; k < lane_numel; ++k)
    if (k < at.count) to[at.local + at.apart * k] = static_cast<std::uint8_t>(codes.v[k]);
}

/// Loads the values of a buffer for a step. scale: index of the block's scale.
ZP_DEVICE inline Pack<float> read_stored(const StoredBuffer& buffer, const LaneElements& at,
                                         std::int64_t scale) {
  if (buffer.format == StateFormat::fp32)
    return load_values(static_cast<const float*>(buffer.codes), at);
  const Words<lane_numel> codes =
      buffer.format == StateFormat::e4m3
          ? load_bytes(static_cast<const std::uint8_t*>(buffer.codes), at)
          : load_halves(static_cast<const std::uint16_t*>(buffer.codes), at);
  const bool scaled = is_scaled(buffer.format);
  const float scale_inv = scaled ? buffer.scale_inv[scale] : 1.0F;
  Pack<float> values;
  ZP_UNROLL
  for (int k = 0; k < lane_numel; ++k) {
    const float widened = widened_code(buffer.format, codes.v[k]);
    values.v[k] = scaled ? widened * scale_inv : widened;
  }
  return values;
}

/// Codes of values, or of widened codes (scale = 1). fp32 and bf16 do not use scale.
ZP_DEVICE inline void store_codes(const StoredBuffer& buffer, const LaneElements& at,
                                  const Pack<float>& values, float scale) {
  if (buffer.format == StateFormat::fp32)
    return store_values(static_cast<float*>(buffer.codes), at, values);
  const bool scaled = is_scaled(buffer.format);
  Words<lane_numel> codes;
  ZP_UNROLL
  for (int k = 0; k < lane_numel; ++k)
    codes.v[k] = narrowed_code(buffer.format, scaled ? values.v[k] * scale : values.v[k]);
  if (buffer.format == StateFormat::e4m3)
    return store_bytes(static_cast<std::uint8_t*>(buffer.codes), at, codes);
  store_halves(static_cast<std::uint16_t*>(buffer.codes), at, codes);
}

}  // namespace zeroproof::cuda::device
