#include "cuda/device/kernels/base/elementwise.cuh"
#include "cuda/device/kernels/base/numels.hpp"
#include "cuda/device/kernels/base/philox.cuh"
#include "cuda/device/kernels/formats/cast_element.cuh"
#include "cuda/device/operations.hpp"

namespace zeroproof::cuda::device {

namespace {

struct StochasticNarrow {
  static constexpr int pack_numel = 8;
  std::uint64_t seed;
  std::uint64_t first_index;
  std::uint32_t t;
  const float* source;  // [numel]
  bf16* target;         // [numel]

  ZP_DEVICE PhiloxWords words(std::uint64_t index) const {
    return philox_words(seed, stochastic_rounding_stream, t, index / 4);
  }

  ZP_DEVICE void one(std::int64_t i) const {
    const std::uint64_t index = first_index + static_cast<std::uint64_t>(i);
    const PhiloxWords r = words(index);
    const std::uint32_t word =
        select_word(static_cast<std::uint32_t>(index % 4), r.w[0], r.w[1], r.w[2], r.w[3]);
    target[i].bits = stochastic_bf16_bits(source[i], word);
  }

  /// Eight elements use two blocks of random words, or three if they do not start at a block.
  ZP_DEVICE void pack(std::int64_t i) const {
    const std::uint64_t index = first_index + static_cast<std::uint64_t>(i);
    const std::uint32_t skip = static_cast<std::uint32_t>(index % 4);
    std::uint32_t r[12];
    ZP_UNROLL
    for (int b = 0; b < 3; ++b) {
      PhiloxWords block{};
      if (b < 2 || skip != 0U) block = words(index + static_cast<std::uint64_t>(4 * b));
      ZP_UNROLL
      for (int k = 0; k < 4; ++k) r[4 * b + k] = block.w[k];
    }
    const Pack<float> in[2] = {load_pack(source + i), load_pack(source + i + 4)};
    std::uint32_t half[8];
    ZP_UNROLL
    for (int k = 0; k < pack_numel; ++k) {
      half[k] = stochastic_bf16_bits(in[k / 4].v[k % 4],
                                     select_word(skip, r[k], r[k + 1], r[k + 2], r[k + 3]));
    }
    Pack<std::uint32_t> out;
    ZP_UNROLL
    for (int k = 0; k < 4; ++k) out.v[k] = half[2 * k] | (half[2 * k + 1] << 16);
    store_pack(reinterpret_cast<std::uint32_t*>(target + i), out);
  }
};

}  // namespace

void stochastic_cast_to_bf16(const Exec&, const RoundingDraw& draw, Span<const float> source,
                             Span<bf16> target) {
  require_same_numel("source", source, "target", target);
  if (source.empty()) return;
  const StochasticNarrow operation{draw.seed, draw.first_index,
                                   static_cast<std::uint32_t>(draw.step), source.data(),
                                   target.data()};
  run_elementwise(operation, numel(source), operation.source, operation.target);
}

}  // namespace zeroproof::cuda::device
