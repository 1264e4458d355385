// Stochastic rounding to bf16 (R8).

#include "common/contracts/cast.hpp"
#include "cuda/host/simd/draw_words.hpp"
#include "cuda/host/simd/variant.hpp"

namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE {
namespace {

inline std::uint16_t rounded_bits(float value, std::uint32_t word) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t moved = (bits + (word >> 16)) >> 16;
  const bool nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  return static_cast<std::uint16_t>(nan ? 0x7FFFU : moved);
}

}  // namespace

void to_bf16_stochastic(const Draw& draw, const float* source, std::uint16_t* target,
                        std::int64_t numel) {
  const RoundKeys keys = round_keys(draw.seed);
  alignas(64) std::uint32_t words[drawn_words];
  std::uint64_t index = draw.index;
  for (std::int64_t begin = 0; begin < numel;) {
    draw_words(keys, stochastic_rounding_stream, draw.step, index / 4, words);
    const std::int64_t lead =
        static_cast<std::int64_t>(index % 4);  // words of elements before the first
    const std::int64_t left = numel - begin;
    const std::int64_t count = left < drawn_words - lead ? left : drawn_words - lead;
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
      target[begin + i] = rounded_bits(source[begin + i], words[lead + i]);
    }
    begin += count;
    index += static_cast<std::uint64_t>(count);
  }
}

}  // namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE
