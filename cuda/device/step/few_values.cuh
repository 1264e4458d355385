#pragma once
// One or four values of a gradient in registers: load, widen exactly, add. Four values are adjacent
// and take one access, or are `apart` elements from each other, so that the threads of a warp take
// whole rows.

#include "cuda/device/kernels/formats/cast_element.cuh"
#include "cuda/device/step/piece_walk.cuh"

namespace zeroproof::cuda::device {

/// Formats of values that are loaded together. The first three as in DType.
enum class LoadType : std::uint8_t { fp32, bf16, fp16, mixed };

inline LoadType load_type(DType dtype) {
  return dtype == DType::bf16   ? LoadType::bf16
         : dtype == DType::fp16 ? LoadType::fp16
                                : LoadType::fp32;
}

template <int width>
struct alignas(4 * width) Floats {
  float v[width];
};

/// Values as stored in memory. Adjacent 16-bit values share a word, the earlier one in the lower
/// half; the upper words are then unused.
template <int width>
struct alignas(4 * width) Words {
  std::uint32_t v[width];
};

/// T is as wide as a value.
template <class T, int width, int apart>
ZP_DEVICE inline Words<width> load_rows(const T* from) {
  Words<width> words;
  ZP_UNROLL
  for (int k = 0; k < width; ++k) words.v[k] = from[apart * k];
  return words;
}

template <LoadType type, int width, int apart = 1>
ZP_DEVICE inline Words<width> load_words(const PlacedAddress& from, const Place& place) {
  struct alignas(8) TwoWords {
    std::uint32_t v[2];
  };
  if constexpr (apart != 1) {
    if (type == LoadType::fp32 || (type == LoadType::mixed && from.dtype == DType::fp32)) {
      return load_rows<std::uint32_t, width, apart>(from.at<std::uint32_t>(place));
    }
    return load_rows<std::uint16_t, width, apart>(from.at<std::uint16_t>(place));
  }
  if (type == LoadType::fp32 || (type == LoadType::mixed && from.dtype == DType::fp32)) {
    return *reinterpret_cast<const Words<width>*>(from.at<float>(place));
  }
  Words<width> words{};
  if constexpr (width == 1) {
    words.v[0] = *from.at<std::uint16_t>(place);
  } else {
    const TwoWords two = *reinterpret_cast<const TwoWords*>(from.at<std::uint16_t>(place));
    words.v[0] = two.v[0];
    words.v[1] = two.v[1];
  }
  return words;
}

/// fp16 to fp32 without a branch: the exponents' biases differ by 112, so the factor is 2^112, and
/// the product is exact for subnormals too. The same bits as float_of_fp16.
ZP_HOST_DEVICE inline float widened_fp16(std::uint32_t half) {
  const std::uint32_t magnitude = (half & 0x7FFFU) << 13;
  const float scaled = float_of(magnitude) * 0x1p112F;
  const std::uint32_t bits = magnitude >= 0x0F800000U ? magnitude | 0x7F800000U : bits_of(scaled);
  return float_of(bits | (half & 0x8000U) << 16);
}

/// Value k of the words.
template <LoadType type, int width, int apart = 1>
ZP_DEVICE inline float widened(const Words<width>& words, DType dtype, int k) {
  if (type == LoadType::fp32 || (type == LoadType::mixed && dtype == DType::fp32))
    return float_of(words.v[k]);
  const std::uint32_t half = apart == 1 ? words.v[k / 2] >> (k % 2 * 16) & 0xFFFFU : words.v[k];
  if (type == LoadType::bf16 || (type == LoadType::mixed && dtype == DType::bf16))
    return float_of(half << 16);
  return widened_fp16(half);
}

template <LoadType type, int width, int apart = 1>
ZP_DEVICE inline Floats<width> widened(const Words<width>& words, DType dtype) {
  Floats<width> values;
  ZP_UNROLL
  for (int k = 0; k < width; ++k) values.v[k] = widened<type, width, apart>(words, dtype, k);
  return values;
}

template <int width>
ZP_DEVICE inline Floats<width> added(const Floats<width>& left, const Floats<width>& right) {
  Floats<width> sum;
  ZP_UNROLL
  for (int k = 0; k < width; ++k) sum.v[k] = left.v[k] + right.v[k];
  return sum;
}

/// ((0 + 1) + (2 + 3)) + ...: the balanced tree over n values, n a power of two.
template <int n, int width>
ZP_DEVICE inline Floats<width> tree_of(const Floats<width>* values) {
  if constexpr (n == 1) {
    return values[0];
  } else {
    return added(tree_of<n / 2>(values), tree_of<n / 2>(values + n / 2));
  }
}

template <int apart = 1, int width>
ZP_DEVICE inline void store(const PlacedAddress& to, const Place& place,
                            const Floats<width>& values) {
  if constexpr (apart == 1) {
    *reinterpret_cast<Floats<width>*>(to.at<float>(place)) = values;
  } else {
    float* const row = to.at<float>(place);
    ZP_UNROLL
    for (int k = 0; k < width; ++k) row[apart * k] = values.v[k];
  }
}

}  // namespace zeroproof::cuda::device
