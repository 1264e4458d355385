// Stochastic rounding to bf16 (R8) with Philox4x32-10 (R15), written for vectors: one group of four words per lane.
// Source of the generator: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3" (SC'11).

#include "common/contracts/cast.hpp"
#include "cuda/host/simd/variant.hpp"

namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE {
namespace {

constexpr int groups = 64;  // four words each; their counters and words stay in the first-level cache

struct RoundKeys {
  std::uint32_t low[10], high[10];
};

inline RoundKeys round_keys(std::uint64_t seed) {
  RoundKeys keys;
  std::uint32_t low = static_cast<std::uint32_t>(seed);
  std::uint32_t high = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    keys.low[round] = low;
    keys.high[round] = high;
    low += 0x9E3779B9U;
    high += 0xBB67AE85U;
  }
  return keys;
}

/// words[4 g + w] = word w of group first + g.
inline void draw_words(const RoundKeys& keys, std::uint32_t step, std::uint64_t first, std::uint32_t* words) {
#pragma omp simd
  for (int g = 0; g < groups; ++g) {
    const std::uint64_t group = first + static_cast<std::uint64_t>(g);
    std::uint32_t c0 = static_cast<std::uint32_t>(group);
    std::uint32_t c1 = static_cast<std::uint32_t>(group >> 32);
    std::uint32_t c2 = step;
    std::uint32_t c3 = stochastic_rounding_stream;
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * c0;
      const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * c2;
      c0 = static_cast<std::uint32_t>(product1 >> 32) ^ c1 ^ keys.low[round];
      c1 = static_cast<std::uint32_t>(product1);
      c2 = static_cast<std::uint32_t>(product0 >> 32) ^ c3 ^ keys.high[round];
      c3 = static_cast<std::uint32_t>(product0);
    }
    words[4 * g] = c0;
    words[4 * g + 1] = c1;
    words[4 * g + 2] = c2;
    words[4 * g + 3] = c3;
  }
}

inline std::uint16_t rounded_bits(float value, std::uint32_t word) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t moved = (bits + (word >> 16)) >> 16;
  const bool nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  return static_cast<std::uint16_t>(nan ? 0x7FFFU : moved);
}

}  // namespace

void to_bf16_stochastic(const Draw& draw, const float* source, std::uint16_t* target, std::int64_t numel) {
  const RoundKeys keys = round_keys(draw.seed);
  alignas(64) std::uint32_t words[4 * groups];
  std::uint64_t index = draw.index;
  for (std::int64_t begin = 0; begin < numel;) {
    draw_words(keys, draw.step, index / 4, words);
    const std::int64_t lead = static_cast<std::int64_t>(index % 4);  // words of elements before the first
    const std::int64_t left = numel - begin;
    const std::int64_t count = left < 4 * groups - lead ? left : 4 * groups - lead;
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
      target[begin + i] = rounded_bits(source[begin + i], words[lead + i]);
    }
    begin += count;
    index += static_cast<std::uint64_t>(count);
  }
}

}  // namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE
