#pragma once
// A part of a tensor of blocks (R22), as ranges within one row and one block.

#include <algorithm>
#include <cstdint>
#include <string>

#include "common/base/error.hpp"
#include "common/layout/block_grid.hpp"

namespace zeroproof::cuda {

/// Throws invalid_argument unless the grid is legal, contains these elements, and has one block per
/// scale.
inline void require_block_part(const char* op, const BlockGrid& grid, std::int64_t first,
                               std::size_t numel, const char* buffer, std::size_t num_blocks) {
  ZP_CHECK(grid.is_legal(), ErrorCode::invalid_argument,
           std::string(op) + ": blocks of " + std::to_string(grid.block_rows) + " x " +
               std::to_string(grid.block_columns) + " over " + std::to_string(grid.rows) + " x " +
               std::to_string(grid.columns) + " elements",
           "the grid does not assign every element to a block",
           "pass dimensions accepted by BlockGrid::is_legal()");
  const auto count = static_cast<std::int64_t>(numel);
  ZP_CHECK(first >= 0 && first <= grid.numel() && count <= grid.numel() - first,
           ErrorCode::invalid_argument,
           std::string(op) + ": " + std::to_string(numel) + " elements from " +
               std::to_string(first) + " of " + std::to_string(grid.numel()),
           "elements beyond the tensor have no block", "pass a part of the tensor");
  ZP_CHECK(static_cast<std::int64_t>(num_blocks) == grid.num_blocks(), ErrorCode::invalid_argument,
           std::string(op) + ": " + buffer + " has " + std::to_string(num_blocks) +
               " elements but there are " + std::to_string(grid.num_blocks()) + " blocks",
           "every block has its own number", "pass one number for every block of the whole tensor");
}

namespace host {

/// Calls body(block, begin, end) for ranges of elements [begin, end) of the part, in their order,
/// that together cover its elements [from, to).
template <class Body>
void for_each_stretch(const BlockGrid& grid, std::int64_t first, std::int64_t from, std::int64_t to,
                      const Body& body) {
  const std::int64_t across = grid.blocks_across();
  while (from < to) {
    const std::int64_t row = (first + from) / grid.columns, column = (first + from) % grid.columns;
    const std::int64_t block_row = row / grid.block_rows * across;
    const std::int64_t row_end = std::min(to, from + grid.columns - column);
    for (std::int64_t at = column; from < row_end;) {
      const std::int64_t block = at / grid.block_columns;
      const std::int64_t left = grid.block_columns - at % grid.block_columns;
      const std::int64_t end = from + std::min(row_end - from, left);
      body(static_cast<std::size_t>(block_row + block), from, end);
      at += end - from;
      from = end;
    }
  }
}

}  // namespace host
}  // namespace zeroproof::cuda
