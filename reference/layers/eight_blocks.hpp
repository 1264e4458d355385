#pragma once
// R18: a sum of n terms in eight fixed blocks, so that each of 1, 2, 4 or 8 ranks can have whole
// blocks.

#include <array>
#include <cstddef>
#include <cstdint>

namespace zeroproof::reference {

/// Adds `count` block sums, 1, 2, 4 or 8, neighbours first: ((s0 + s1) + (s2 + s3)) + ...
inline float fold_blocks(std::array<float, 8> sums, int count = 8) {
  for (int step = 1; step < count; step *= 2) {
    for (int b = 0; b < count; b += 2 * step) {
      const auto left = static_cast<std::size_t>(b), right = static_cast<std::size_t>(b + step);
      sums[left] = sums[left] + sums[right];
    }
  }
  return sums[0];
}

/// The fold of blocks `first` to `first + count` of a sum of n terms; term(i) for i from 0 to n -
/// 1.
template <class Term>
float sum_of_blocks(std::int64_t n, int first, int count, const Term& term) {
  std::array<float, 8> sums{};
  for (int b = 0; b < count; ++b) {
    float& sum = sums[b];
    for (std::int64_t i = n * (first + b) / 8; i < n * (first + b + 1) / 8; ++i)
      sum = sum + term(i);
  }
  return fold_blocks(sums, count);
}

/// The whole sum.
template <class Term>
float sum_in_blocks(std::int64_t n, const Term& term) {
  return sum_of_blocks(n, 0, 8, term);
}

}  // namespace zeroproof::reference
