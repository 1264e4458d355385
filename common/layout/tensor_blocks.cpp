#include "common/layout/tensor_blocks.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "common/base/error.hpp"

namespace zeroproof {
namespace {

TensorMatrix matrix_of(const TensorSlot& slot) {
  if (slot.shape.empty()) return {slot.begin, 1, 1};
  std::int64_t rows = 1;
  for (std::size_t d = 0; d + 1 < slot.shape.size(); ++d) rows *= slot.shape[d];
  return {slot.begin, slot.numel == 0 ? 0 : rows, slot.numel == 0 ? 0 : slot.shape.back()};
}

}  // namespace

std::vector<TensorMatrix> matrices_of(const FlatLayout& undistributed) {
  std::vector<TensorMatrix> matrices;
  for (const TensorSlot& slot : undistributed.tensors()) matrices.push_back(matrix_of(slot));
  return matrices;
}

TensorBlocks::TensorBlocks(const FlatLayout& layout, std::vector<TensorPlacement> placement,
                           std::vector<TensorMatrix> matrices, std::int64_t block_rows,
                           std::int64_t block_columns)
    : placement_(std::move(placement)) {
  const std::vector<TensorSlot>& tensors = layout.tensors();
  if (matrices.empty()) matrices = matrices_of(layout);
  ZP_CHECK(matrices.size() == tensors.size() &&
               (placement_.empty() || placement_.size() == tensors.size()),
           ErrorCode::invalid_argument,
           "there are " + std::to_string(matrices.size()) + " matrices and " +
               std::to_string(placement_.size()) + " placements of " +
               std::to_string(tensors.size()) + " tensors",
           "scales belong to blocks of the undistributed tensors (R24)",
           "pass one of each for every tensor, or none without tensor parallelism");
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const auto [begin, rows, columns] = matrices[t];
    const BlockGrid grid = {
        rows, columns, block_rows == 0 ? std::max<std::int64_t>(rows, 1) : block_rows,
        block_columns == 0 ? std::max<std::int64_t>(columns, 1) : block_columns};
    begin_.push_back(begin);
    grids_.push_back(grid);
    first_.push_back(num_blocks_);
    ZP_CHECK(grid.is_legal(), ErrorCode::invalid_argument,
             "tensor " + tensors[t].name + " is a matrix of " + std::to_string(rows) + " by " +
                 std::to_string(columns) + " in blocks of " + std::to_string(block_rows) + " by " +
                 std::to_string(block_columns),
             "its blocks could not be numbered (R22)",
             "use dimensions of 0 or more and at most 2^48 elements");
    num_blocks_ += grid.num_blocks();
    if (tensors[t].numel == 0) continue;
    // Elements of a tensor are in increasing order, so checking the ends is enough.
    const auto tensor = static_cast<std::int64_t>(t);
    ZP_CHECK(in_matrix(tensor, 0) >= 0 && in_matrix(tensor, tensors[t].numel - 1) < grid.numel(),
             ErrorCode::invalid_argument,
             "tensor " + tensors[t].name + " exceeds its undistributed matrix",
             "its elements would have no block (R24)",
             "pass the undistributed tensor's position and shape");
  }
}

std::int64_t TensorBlocks::in_matrix(std::int64_t tensor, std::int64_t element) const {
  if (placement_.empty()) return element;
  const auto t = static_cast<std::size_t>(tensor);
  return placement_[t].global(element) - begin_[t];
}

std::int64_t TensorBlocks::block_of(std::int64_t tensor, std::int64_t element) const {
  const BlockGrid& at = grid(tensor);
  const std::int64_t e = in_matrix(tensor, element);
  return first_block(tensor) + e / at.columns / at.block_rows * at.blocks_across() +
         e % at.columns / at.block_columns;
}

std::vector<BlockRun> TensorBlocks::runs(const std::vector<Piece>& pieces) const {
  std::vector<BlockRun> runs;
  for (const Piece& piece : pieces) {
    // A row of the split tensor is one contiguous range of the undistributed one.
    const auto t = static_cast<std::size_t>(piece.tensor);
    const std::int64_t row =
        placement_.empty() ? piece.tensor_begin + piece.numel : placement_[t].row_numel;
    for (std::int64_t i = 0; i < piece.numel;) {
      const std::int64_t element = piece.tensor_begin + i;
      const std::int64_t count = std::min(piece.numel - i, row - element % row);
      const BlockRun run = {piece.tensor, in_matrix(piece.tensor, element), piece.local_begin + i,
                            count};
      const bool follows = i > 0 && runs.back().first + runs.back().numel == run.first;
      if (follows) {
        runs.back().numel += count;
      } else {
        runs.push_back(run);
      }
      i += count;
    }
  }
  return runs;
}

}  // namespace zeroproof
