#pragma once
// Position of the elements of a piece in the undistributed model, which selects their random words
// (R13, R15).

#include "cuda/device/kernels/base/host_device.cuh"
#include "cuda/device/step/step_memory.hpp"

namespace zeroproof::cuda::device {

/// Division by a row that is at least as long as a piece is a comparison; by a shorter one it fits
/// in 32 bits.
class PiecePlace {
 public:
  PiecePlace() = default;

  ZP_HOST_DEVICE explicit PiecePlace(const StepPiece& piece) {
    if (piece.row_numel == piece.row_stride) {  // rows without gaps: one long row
      first_ = static_cast<std::uint64_t>(piece.place_begin + piece.tensor_begin);
      column_ = 0;
      row_numel_ = std::int64_t{1} << 62;
      row_stride_ = 0;
      return;
    }
    const std::int64_t row = piece.tensor_begin / piece.row_numel;
    first_ = static_cast<std::uint64_t>(piece.place_begin + row * piece.row_stride);
    column_ = piece.tensor_begin - row * piece.row_numel;
    row_numel_ = piece.row_numel;
    row_stride_ = piece.row_stride;
  }

  struct At {
    std::uint64_t index;
    std::int64_t
        left;  ///< elements to the end of the row, including this one, with consecutive indices
  };

  /// Element i of the piece.
  ZP_HOST_DEVICE At at(int i) const {
    std::int64_t column = column_ + i;
    std::int64_t row = 0;
    if (row_numel_ >= StepPiece::most_numel) {
      if (column >= row_numel_) {
        column -= row_numel_;
        row = 1;
      }
    } else {  // column_ is below row_numel_, and i below most_numel
      const auto narrow = static_cast<std::uint32_t>(column);
      const auto length = static_cast<std::uint32_t>(row_numel_);
      row = narrow / length;
      column = narrow % length;
    }
    return {first_ + static_cast<std::uint64_t>(row * row_stride_ + column), row_numel_ - column};
  }

 private:
  std::uint64_t first_ = 0;  // index of the first element of the row in which the piece begins
  std::int64_t column_ = 0;  // column of the piece's first element in that row
  std::int64_t row_numel_ = 1;
  std::int64_t row_stride_ = 1;
};

}  // namespace zeroproof::cuda::device
