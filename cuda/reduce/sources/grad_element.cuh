#pragma once
// One element of a gradient (grad_formula.hpp), for kernels and for the host.

#include <type_traits>

#include "common/base/dtype.hpp"
#include "cuda/device/kernels/base/philox.cuh"
#include "cuda/device/kernels/formats/cast_element.cuh"

namespace zeroproof::cuda::device {

/// Elements of one micro-batch in one step, four at a time.
struct GradElements {
  std::uint64_t seed;
  std::uint32_t stream;
  std::uint32_t t;
  std::int64_t overflow;  ///< index of the infinite element; -1: none

  ZP_HOST_DEVICE PhiloxWords words(std::int64_t index) const {
    return philox_words(seed, stream, t, static_cast<std::uint64_t>(index) / 4U);
  }

  /// 2^log2_scale. -126 <= log2_scale <= 127.
  ZP_HOST_DEVICE static float power_of_two(std::int32_t log2_scale) {
    return float_of(static_cast<std::uint32_t>(log2_scale + 127) << 23);
  }

  ZP_HOST_DEVICE float value(std::int64_t index, std::uint32_t word, float scale) const {
    if (index == overflow) return float_of(0x7F800000U);
    return static_cast<float>(static_cast<std::int32_t>(word >> 24) - 128) * 0x1p-8F * scale;
  }

  /// A single element by index.
  ZP_HOST_DEVICE float at(std::int64_t index, float scale) const {
    const PhiloxWords r = words(index);
    const auto n = static_cast<std::uint32_t>(index & 3);
    return value(index, select_word(n, r.w[0], r.w[1], r.w[2], r.w[3]), scale);
  }
};

template <class T>
ZP_HOST_DEVICE inline T leaf_as(float value) {
  if constexpr (std::is_same_v<T, bf16>) {
    return {bf16_bits(value)};
  } else if constexpr (std::is_same_v<T, fp16>) {
    return {fp16_bits(value)};
  } else {
    return value;
  }
}

}  // namespace zeroproof::cuda::device
