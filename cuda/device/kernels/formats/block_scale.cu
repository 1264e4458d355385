#include "cuda/device/kernels/base/elementwise.cuh"
#include "cuda/device/kernels/base/numels.hpp"
#include "cuda/device/kernels/formats/cast_element.cuh"
#include "cuda/device/kernels/formats/part_blocks.cuh"
#include "cuda/device/operations.hpp"
#include "cuda/host/formats/block_part.hpp"

namespace zeroproof::cuda::device {

namespace {

ZP_HOST_DEVICE inline float value_of(float element, bool through_bf16) {
  return through_bf16 ? float_of_bf16(bf16_bits(element)) : element;
}

struct Amax {
  static constexpr int pack_numel = 1;
  PartBlocks blocks;
  const float* values;  // [numel]
  std::uint32_t* amax;  // [num_blocks]
  bool through_bf16;
  std::int64_t block = -1;  // block of this thread's unmerged maximum; -1: none
  std::uint32_t largest = 0;

  ZP_DEVICE void one(std::int64_t i) {
    const std::int64_t at = blocks.of(i);
    if (at != block) finish();
    block = at;
    const std::uint32_t magnitude = bits_of(value_of(values[i], through_bf16)) & 0x7FFFFFFFU;
    const std::uint32_t counted = magnitude > 0x7F800000U ? 0x7FFFFFFFU : magnitude;
    largest = counted > largest ? counted : largest;
  }

  ZP_DEVICE void pack(std::int64_t i) { one(i); }

  ZP_DEVICE void finish() {
    if (largest != 0U)
      atomicMax(amax + block, largest);  // the integer maximum is independent of order (R14)
    largest = 0U;
  }
};

ZP_HOST_DEVICE inline std::uint8_t code_of(float value, e4m3, bool saturates) {
  return saturates ? e4m3_bits(value) : nonfinite_e4m3_bits(value);
}
ZP_HOST_DEVICE inline std::uint8_t code_of(float value, e5m2, bool saturates) {
  return saturates ? e5m2_bits(value) : nonfinite_e5m2_bits(value);
}
ZP_HOST_DEVICE inline float float_of_code(e4m3 code) { return float_of_e4m3(code.bits); }
ZP_HOST_DEVICE inline float float_of_code(e5m2 code) { return float_of_e5m2(code.bits); }

template <class Format>
struct Quantize {
  static constexpr int pack_numel = 1;
  PartBlocks blocks;
  const float* values;  // [numel]
  const float* scale;   // [num_blocks]
  Format* target;       // [numel]
  bool through_bf16, saturates;

  ZP_DEVICE void one(std::int64_t i) const {
    const float scaled = value_of(values[i], through_bf16) * scale[blocks.of(i)];
    target[i].bits = code_of(scaled, Format{}, saturates);
  }

  ZP_DEVICE void pack(std::int64_t i) const { one(i); }
};

template <class Format>
struct Dequantize {
  static constexpr int pack_numel = 1;
  PartBlocks blocks;
  const Format* source;    // [numel]
  const float* scale_inv;  // [num_blocks]
  float* target;           // [numel]

  ZP_DEVICE void one(std::int64_t i) const {
    target[i] = float_of_code(source[i]) * scale_inv[blocks.of(i)];
  }

  ZP_DEVICE void pack(std::int64_t i) const { one(i); }
};

template <class Format>
void quantize(const char* op, const BlockQuantization& options, std::int64_t first,
              Span<const float> values, Span<const float> scale, Span<Format> target) {
  require_same_numel("values", values, "target", target);
  require_block_part(op, options.grid, first, values.size(), "scale", scale.size());
  if (values.empty()) return;
  const Quantize<Format> operation{PartBlocks(options.grid, first),
                                   values.data(),
                                   scale.data(),
                                   target.data(),
                                   options.value == QuantizedValue::through_bf16,
                                   options.overflow == Overflow::saturate};
  run_elementwise(operation, numel(values));
}

template <class Format>
void dequantize(const char* op, const BlockGrid& grid, std::int64_t first,
                Span<const Format> source, Span<const float> scale_inv, Span<float> target) {
  require_same_numel("source", source, "target", target);
  require_block_part(op, grid, first, source.size(), "scale_inv", scale_inv.size());
  if (source.empty()) return;
  const Dequantize<Format> operation{PartBlocks(grid, first), source.data(), scale_inv.data(),
                                     target.data()};
  run_elementwise(operation, numel(source));
}

}  // namespace

void block_amax(const Exec&, const BlockGrid& grid, QuantizedValue value, std::int64_t first,
                Span<const float> values, Span<std::uint32_t> amax) {
  require_block_part("block_amax", grid, first, values.size(), "amax", amax.size());
  if (values.empty()) return;
  const Amax operation{PartBlocks(grid, first), values.data(), amax.data(),
                       value == QuantizedValue::through_bf16};
  run_elementwise(operation, numel(values));
}

void block_quantize_e4m3(const Exec&, const BlockQuantization& options, std::int64_t first,
                         Span<const float> values, Span<const float> scale, Span<e4m3> target) {
  quantize("block_quantize_e4m3", options, first, values, scale, target);
}

void block_quantize_e5m2(const Exec&, const BlockQuantization& options, std::int64_t first,
                         Span<const float> values, Span<const float> scale, Span<e5m2> target) {
  quantize("block_quantize_e5m2", options, first, values, scale, target);
}

void block_dequantize_e4m3(const Exec&, const BlockGrid& grid, std::int64_t first,
                           Span<const e4m3> source, Span<const float> scale_inv,
                           Span<float> target) {
  dequantize("block_dequantize_e4m3", grid, first, source, scale_inv, target);
}

void block_dequantize_e5m2(const Exec&, const BlockGrid& grid, std::int64_t first,
                           Span<const e5m2> source, Span<const float> scale_inv,
                           Span<float> target) {
  dequantize("block_dequantize_e5m2", grid, first, source, scale_inv, target);
}

}  // namespace zeroproof::cuda::device
