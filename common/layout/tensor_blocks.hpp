#pragma once
// The blocks with scales, of all tensors of a rank, and the blocks of its elements (R24).

#include <cstdint>
#include <vector>

#include "common/layout/block_grid.hpp"
#include "common/layout/flat_layout.hpp"
#include "common/layout/process_grid.hpp"

namespace zeroproof {

/// The undistributed tensor of which a rank's tensor is a part or the whole, as a matrix.
struct TensorMatrix {
  std::int64_t begin = 0;  ///< global index of its first element, in the undistributed numbering
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

/// The last dimension is the columns, all others the rows; no dimension: one element.
///
/// Shapes   [num_tensors] of the undistributed layout.
std::vector<TensorMatrix> matrices_of(const FlatLayout& undistributed);

/// A contiguous range of a shard that is contiguous in its undistributed tensor too.
struct BlockRun {
  std::int64_t tensor = 0;
  std::int64_t first = 0;        ///< its first element, counted in the undistributed tensor
  std::int64_t local_begin = 0;  ///< the same element in the shard buffer
  std::int64_t numel = 0;        ///< >= 1
};

class TensorBlocks {
 public:
  TensorBlocks() = default;

  /// Blocks of block_rows by block_columns; 0 for either: the whole tensor in one block.
  ///
  /// Shapes   layout: of this rank. placement, matrices: [num_tensors], or empty: the layout is the undistributed one.
  /// Errors   invalid_argument if the counts differ, or an element of the rank is outside its matrix.
  TensorBlocks(const FlatLayout& layout, std::vector<TensorPlacement> placement,
               std::vector<TensorMatrix> matrices, std::int64_t block_rows,
               std::int64_t block_columns);

  std::int64_t num_tensors() const { return static_cast<std::int64_t>(grids_.size()); }

  /// Blocks of all tensors; the same number on every rank of the step.
  std::int64_t num_blocks() const { return num_blocks_; }

  /// Blocks of a tensor: first_block(t) up to (not including) first_block(t) + grid(t).num_blocks().
  const BlockGrid& grid(std::int64_t tensor) const { return grids_[tensor]; }
  std::int64_t first_block(std::int64_t tensor) const { return first_[tensor]; }

  /// Number of the block of an element of a rank's tensor, element counted in the rank's tensor.
  std::int64_t block_of(std::int64_t tensor, std::int64_t element) const;

  /// The pieces of a shard, split where neighbours are not adjacent in the undistributed tensor. In
  /// order.
  std::vector<BlockRun> runs(const std::vector<Piece>& pieces) const;

 private:
  std::int64_t in_matrix(std::int64_t tensor, std::int64_t element) const;

  std::vector<BlockGrid> grids_;
  std::vector<std::int64_t> first_;
  std::vector<std::int64_t> begin_;         // of the undistributed tensors
  std::vector<TensorPlacement> placement_;  // empty: the layout is the undistributed one
  std::int64_t num_blocks_ = 0;
};

}  // namespace zeroproof
