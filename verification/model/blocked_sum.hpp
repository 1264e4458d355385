#pragma once
// Sums in the order of R18: eight fixed blocks, each from +0 in increasing index order, then a
// fixed tree.

#include <algorithm>
#include <cstdint>

namespace zeroproof::workload {

/// Tensor or context parallelism over 1, 2, 4 or 8 ranks splits a sum between blocks, never inside
/// one.
inline constexpr int sum_blocks = 8;

/// Block b of n terms is [block_begin(n, b), block_begin(n, b + 1)). Blocks may be empty. 0 <= n <
/// 2^60.
constexpr std::int64_t block_begin(std::int64_t n, int b) { return n * b / sum_blocks; }

/// Neighbouring blocks of a sum of `total` terms: all of them, or those of one of 2, 4 or 8 ranks.
/// The fold of their sums is one node of the tree of the whole sum, and folding such nodes by the
/// same tree gives the whole sum.
struct BlockRange {
  std::int64_t total = 0;
  int first = 0;
  int count = sum_blocks;  ///< 1, 2, 4 or 8; first is a multiple of it

  std::int64_t begin() const { return block_begin(total, first); }  ///< first term
  std::int64_t end() const { return block_begin(total, first + count); }
  std::int64_t numel() const { return end() - begin(); }
  /// Block b, 0 <= b <= count, starts at this term, counted from begin().
  std::int64_t local_begin(int b) const { return block_begin(total, first + b) - begin(); }

  /// The part of rank `rank` if this range is divided among `size` ranks; size divides count.
  BlockRange part(int rank, int size) const {
    return {total, first + rank * (count / size), count / size};
  }
};

/// The fold of the eight block sums. T is a scalar or a vector of independent lanes.
template <class T>
inline T fold_blocks(const T& s0, const T& s1, const T& s2, const T& s3, const T& s4, const T& s5,
                     const T& s6, const T& s7) {
  return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7));
}

/// The same tree over 1, 2, 4 or 8 nodes. nodes: [count], overwritten; the result is nodes[0],
/// unchanged for one node.
template <class T>
inline void fused_fold(T* nodes, int count) {
  for (int step = 1; step < count; step *= 2) {
    for (int i = 0; i < count; i += 2 * step) nodes[i] = nodes[i] + nodes[i + step];
  }
}

/// Sum of term(i) for i in [0, n). Terms at `limit` and beyond count +0 and are not evaluated: a
/// sum that starts at +0 is never -0, and adding +0 to another value changes no bit.
template <class Real, class Term>
inline Real blocked_prefix_sum(std::int64_t n, std::int64_t limit, const Term& term) {
  Real sums[sum_blocks];
  for (int b = 0; b < sum_blocks; ++b) {
    Real sum = 0;
    const std::int64_t end = std::min(block_begin(n, b + 1), limit);
    for (std::int64_t i = block_begin(n, b); i < end; ++i) sum += term(i);
    sums[b] = sum;
  }
  return fold_blocks(sums[0], sums[1], sums[2], sums[3], sums[4], sums[5], sums[6], sums[7]);
}

template <class Real, class Term>
inline Real blocked_sum(std::int64_t n, const Term& term) {
  return blocked_prefix_sum<Real>(n, n, term);
}

/// Fold of the blocks of `range`; term(i) with i = 0 at range.begin(). +0 if the range has no
/// terms.
template <class Real, class Term>
inline Real partial_sum(const BlockRange& range, const Term& term) {
  Real sums[sum_blocks] = {};
  for (int b = 0; b < range.count; ++b) {
    for (std::int64_t i = range.local_begin(b); i < range.local_begin(b + 1); ++i)
      sums[b] += term(i);
  }
  fused_fold(sums, range.count);
  return sums[0];
}

}  // namespace zeroproof::workload
