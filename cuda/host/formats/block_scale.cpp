#include <algorithm>
#include <array>
#include <atomic>
#include <bit>

#include "cuda/host/base/check.hpp"
#include "cuda/host/base/parallel_blocks.hpp"
#include "cuda/host/formats/block_part.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/host/simd/kernels.hpp"

namespace zeroproof::cuda::host {
namespace {

/// Elements of a tile of intermediate values, which stays in the first-level cache.
constexpr std::int64_t quant_tile_numel = 512;

using QuantTile = std::array<float, quant_tile_numel>;

/// Calls body(begin, end) for tiles of [begin, end).
template <class Body>
void for_each_quant_tile(std::int64_t begin, std::int64_t end, const Body& body) {
  for (; begin < end; begin += quant_tile_numel)
    body(begin, std::min(begin + quant_tile_numel, end));
}

/// The values of a tile: the elements themselves, or the tile with their values rounded to bf16.
const float* values_of(QuantizedValue value, const SimdKernels& kernels, const float* elements,
                       std::int64_t numel, QuantTile& tile) {
  if (value == QuantizedValue::direct) return elements;
  std::array<std::uint16_t, quant_tile_numel> rounded;
  kernels.to_bf16(elements, rounded.data(), numel);
  kernels.from_bf16(rounded.data(), tile.data(), numel);
  return tile.data();
}

void raise_amax(std::uint32_t& to, std::uint32_t bits) {
  const std::atomic_ref<std::uint32_t> shared(to);  // threads may share a block
  std::uint32_t had = shared.load(std::memory_order_relaxed);
  while (had < bits && !shared.compare_exchange_weak(had, bits, std::memory_order_relaxed)) {
  }
}

template <class Format, class Cast>
void quantize(const char* op, const Exec& exec, const BlockQuantization& options,
              std::int64_t first, Span<const float> values, Span<const float> scale,
              Span<Format> target, Cast cast) {
  require_same_numel(op, "values", values.size(), "target", target.size());
  require_block_part(op, options.grid, first, values.size(), "scale", scale.size());
  const SimdKernels& kernels = simd_kernels(exec.isa);
  const Exec one_thread{.num_threads = 1, .isa = exec.isa};
  parallel_blocks(exec, numel(values), [&](std::int64_t begin, std::int64_t end) {
    for_each_quant_tile(begin, end, [&](std::int64_t from, std::int64_t to) {
      QuantTile tile;
      const float* const v =
          values_of(options.value, kernels, values.data() + from, to - from, tile);
      for_each_stretch(options.grid, first, from, to,
                       [&](std::size_t block, std::int64_t left, std::int64_t right) {
                         const float s = scale[block];
                         for (std::int64_t i = left - from; i < right - from; ++i)
                           tile[i] = v[i] * s;
                       });
      const auto count = static_cast<std::size_t>(to - from);
      cast(one_thread, Span<const float>(tile.data(), count), target.subspan(from, count));
    });
  });
}

template <class Format, class Widen>
void dequantize(const char* op, const Exec& exec, const BlockGrid& grid, std::int64_t first,
                Span<const Format> source, Span<const float> scale_inv, Span<float> target,
                Widen widen) {
  require_same_numel(op, "source", source.size(), "target", target.size());
  require_block_part(op, grid, first, source.size(), "scale_inv", scale_inv.size());
  const Exec one_thread{.num_threads = 1, .isa = exec.isa};
  parallel_blocks(exec, numel(source), [&](std::int64_t begin, std::int64_t end) {
    const auto count = static_cast<std::size_t>(end - begin);
    const auto at = static_cast<std::size_t>(begin);
    widen(one_thread, source.subspan(at, count), target.subspan(at, count));
    for_each_stretch(grid, first, begin, end,
                     [&](std::size_t block, std::int64_t left, std::int64_t right) {
                       const float s = scale_inv[block];
                       float* const x = target.data();
                       for (std::int64_t i = left; i < right; ++i) x[i] = x[i] * s;
                     });
  });
}

}  // namespace

void block_amax(const Exec& exec, const BlockGrid& grid, QuantizedValue value, std::int64_t first,
                Span<const float> values, Span<std::uint32_t> amax) {
  require_block_part("block_amax", grid, first, values.size(), "amax", amax.size());
  const SimdKernels& kernels = simd_kernels(exec.isa);
  parallel_blocks(exec, numel(values), [&](std::int64_t begin, std::int64_t end) {
    for_each_quant_tile(begin, end, [&](std::int64_t from, std::int64_t to) {
      QuantTile tile;
      const float* const v = values_of(value, kernels, values.data() + from, to - from, tile);
      for_each_stretch(
          grid, first, from, to, [&](std::size_t block, std::int64_t left, std::int64_t right) {
            std::uint32_t largest = 0;
            for (std::int64_t i = left - from; i < right - from; ++i) {
              const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(v[i]) & 0x7FFFFFFFU;
              largest = std::max(largest, magnitude > 0x7F800000U ? 0x7FFFFFFFU : magnitude);
            }
            raise_amax(amax[block], largest);
          });
    });
  });
}

void block_quantize_e4m3(const Exec& exec, const BlockQuantization& options, std::int64_t first,
                         Span<const float> values, Span<const float> scale, Span<e4m3> target) {
  quantize("block_quantize_e4m3", exec, options, first, values, scale, target,
           options.overflow == Overflow::saturate ? cast_to_e4m3 : nonfinite_cast_to_e4m3);
}

void block_quantize_e5m2(const Exec& exec, const BlockQuantization& options, std::int64_t first,
                         Span<const float> values, Span<const float> scale, Span<e5m2> target) {
  quantize("block_quantize_e5m2", exec, options, first, values, scale, target,
           options.overflow == Overflow::saturate ? cast_to_e5m2 : nonfinite_cast_to_e5m2);
}

void block_dequantize_e4m3(const Exec& exec, const BlockGrid& grid, std::int64_t first,
                           Span<const e4m3> source, Span<const float> scale_inv,
                           Span<float> target) {
  dequantize("block_dequantize_e4m3", exec, grid, first, source, scale_inv, target, widen_e4m3);
}

void block_dequantize_e5m2(const Exec& exec, const BlockGrid& grid, std::int64_t first,
                           Span<const e5m2> source, Span<const float> scale_inv,
                           Span<float> target) {
  dequantize("block_dequantize_e5m2", exec, grid, first, source, scale_inv, target, widen_e5m2);
}

}  // namespace zeroproof::cuda::host
