#pragma once
// Work over rows, in parts of one row that are short enough for buffers on the stack.

#include <algorithm>
#include <array>

#include "cuda/host/base/parallel_blocks.hpp"

namespace zeroproof::cuda::host {

inline constexpr std::int64_t stretch_numel = 1024;

/// body(row, first column, number of columns) for every part of rows of `columns` elements, at most
/// stretch_numel long, on exec.num_threads threads.
template <class Body>
void parallel_stretches(const Exec& exec, std::int64_t numel, std::int64_t columns,
                        const Body& body) {
  parallel_blocks(exec, numel, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t row = begin / columns;
    std::int64_t column = begin % columns;
    while (begin < end) {
      const std::int64_t count = std::min({end - begin, columns - column, stretch_numel});
      body(row, column, count);
      begin += count;
      column += count;
      if (column == columns) {
        column = 0;
        ++row;
      }
    }
  });
}

/// The sum of a row in the 8 blocks of R18. products(first column, count, out) computes a range of
/// the terms; every element of the row is requested once.
template <class Products>
float row_sum(std::int64_t columns, const Products& products) {
  constexpr std::int64_t tile = stretch_numel / 8;
  std::array<float, stretch_numel> values;
  std::array<float, 8> sums{};
  for (std::int64_t base = 0; base * 8 < columns + 7; base += tile) {
    std::array<std::int64_t, 8> counts{};
    for (std::int64_t b = 0; b < 8; ++b) {
      const std::int64_t first = columns * b / 8 + base;
      const std::int64_t count = std::clamp<std::int64_t>(columns * (b + 1) / 8 - first, 0, tile);
      counts[b] = count;
      if (count > 0) products(first, count, values.data() + b * tile);
    }
    // Blocks are added side by side, because the additions of one block form a dependency chain.
    const std::int64_t all = *std::min_element(counts.begin(), counts.end());
    for (std::int64_t i = 0; i < all; ++i) {
      for (std::size_t b = 0; b < 8; ++b) sums[b] += values[b * tile + static_cast<std::size_t>(i)];
    }
    for (std::size_t b = 0; b < 8; ++b) {
      for (std::int64_t i = all; i < counts[b]; ++i)
        sums[b] += values[b * tile + static_cast<std::size_t>(i)];
    }
  }
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

/// body(row) for every row, on exec.num_threads threads.
template <class Body>
void parallel_rows(const Exec& exec, std::int64_t rows, std::int64_t columns, const Body& body) {
  const std::int64_t together = std::max<std::int64_t>(block_numel / columns, 1);
  const std::int64_t groups = (rows + together - 1) / together;
  parallel_blocks(exec, groups * block_numel, [&](std::int64_t begin, std::int64_t) {
    const std::int64_t first = begin / block_numel * together;
    for (std::int64_t row = first; row < std::min(first + together, rows); ++row) body(row);
  });
}

}  // namespace zeroproof::cuda::host
