#pragma once
// Calls whose elements are rows: one row, rows of one element, and rows in between.

#include <algorithm>
#include <cstdint>

#include "common/base/span.hpp"

namespace zeroproof::verification {

enum class RowShape : std::uint8_t { one_row, one_column, square };

/// Size of the largest call: it has many divisors, so that rows in between exist.
inline constexpr std::int64_t largest_rows = 20160;

/// Columns of a call of `numel` elements: all of them, one, or the smallest divisor from the root on. 3 where there are
/// no elements, and so no rows.
inline std::int64_t columns_of(RowShape shape, std::int64_t numel) {
  if (numel == 0) return 3;
  if (shape == RowShape::one_row) return numel;
  if (shape == RowShape::one_column) return 1;
  std::int64_t columns = 1;
  while (columns * columns < numel || numel % columns != 0) ++columns;
  return columns;
}

/// The first `count` elements of an output. The others are no result: they are 0 on both sides.
template <class T>
Span<T> used(Span<T> output, std::int64_t count) {
  const auto n = static_cast<std::size_t>(count);
  std::ranges::fill(output.subspan(n), T{});
  return output.first(n);
}

/// The first `count` elements of an input.
template <class T>
Span<const T> used(Span<const T> input, std::int64_t count) {
  return input.first(count);
}

}  // namespace zeroproof::verification
