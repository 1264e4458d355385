#pragma once
// The blocks of a tensor with one scale per block (R22).

#include <cstdint>

namespace zeroproof {

/// A tensor of rows by columns, row after row, and the blocks that cover it from its first element. Other dimensions
/// than the last are rows.
struct BlockGrid {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t block_rows = 1;
  std::int64_t block_columns = 1;

  /// The most elements a tensor may have.
  static constexpr std::int64_t most = std::int64_t{1} << 48;

  /// Requirements of every operation on a grid: no negative dimension, blocks of at least one
  /// element, at most `most`.
  constexpr bool is_legal() const {
    return rows >= 0 && columns >= 0 && block_rows >= 1 && block_columns >= 1 &&
           (columns == 0 || rows <= most / columns);
  }

  constexpr std::int64_t numel() const { return rows * columns; }
  constexpr std::int64_t blocks_down() const {
    return rows / block_rows + (rows % block_rows != 0 ? 1 : 0);
  }
  constexpr std::int64_t blocks_across() const {
    return columns / block_columns + (columns % block_columns != 0 ? 1 : 0);
  }
  /// 0 for a tensor without elements.
  constexpr std::int64_t num_blocks() const {
    return numel() == 0 ? 0 : blocks_down() * blocks_across();
  }

  bool operator==(const BlockGrid&) const = default;
};

/// One block for the whole tensor.
constexpr BlockGrid one_block(std::int64_t rows, std::int64_t columns) {
  return {rows, columns, rows > 0 ? rows : 1, columns > 0 ? columns : 1};
}

}  // namespace zeroproof
