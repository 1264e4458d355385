#pragma once
// Calls whose elements are rows of some width: one row, rows of one element, and rows in between.

#include <cstdint>

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

}  // namespace zeroproof::verification
