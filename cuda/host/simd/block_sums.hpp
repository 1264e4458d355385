#pragma once
// Sums in the 8 blocks of R18. The blocks of a row are added side by side: eight dependency chains
// instead of one, in the same order.

#include "cuda/host/simd/layer_kernels.hpp"
#include "cuda/host/simd/variant.hpp"

namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE {

inline constexpr int sum_blocks = 8;

/// Blocks first to first + count of n terms; terms are numbered from the first of them. Each block
/// has `shortest` terms or one more.
struct Blocks {
  std::int64_t begin[sum_blocks + 1];
  std::int64_t shortest;
  int count;
};

inline Blocks blocks_of(std::int64_t n, int first = 0, int count = sum_blocks) {
  Blocks blocks = {};
  for (int b = 0; b <= count; ++b) blocks.begin[b] = n * (first + b) / 8 - n * first / 8;
  blocks.shortest = n / 8;
  blocks.count = count;
  return blocks;
}

/// The sums of `count` neighbouring blocks, folded as far as possible.
inline float folded(const float* blocks, int count) {
  float sums[sum_blocks];
  for (int b = 0; b < count; ++b) sums[b] = blocks[b];
  for (int step = 1; step < count; step *= 2) {
    for (int b = 0; b < count; b += 2 * step) sums[b] = sums[b] + sums[b + step];
  }
  return sums[0];
}

/// blocks.count = count
template <int count, class Term>
inline float sum_of_blocks(const Blocks& blocks, const Term& term) {
  float sums[count] = {};
  for (std::int64_t i = 0; i < blocks.shortest; ++i) {
    for (int b = 0; b < count; ++b) sums[b] = sums[b] + term(blocks.begin[b] + i);
  }
  for (int b = 0; b < count; ++b) {
    const std::int64_t last = blocks.begin[b] + blocks.shortest;
    if (last < blocks.begin[b + 1]) sums[b] = sums[b] + term(last);
  }
  return folded(sums, count);
}

/// The sum of term(j) over all blocks.
template <class Term>
inline float sum_of_blocks(const Blocks& blocks, const Term& term) {
  if (blocks.count == 8) return sum_of_blocks<8>(blocks, term);
  if (blocks.count == 4) return sum_of_blocks<4>(blocks, term);
  if (blocks.count == 2) return sum_of_blocks<2>(blocks, term);
  return sum_of_blocks<1>(blocks, term);
}

}  // namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE
