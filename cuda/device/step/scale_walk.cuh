#pragma once
// Iteration of the scale kernels over their pieces, and the block of an element.

#include "cuda/device/kernels/formats/cast_element.cuh"
#include "cuda/device/step/scale_passes.hpp"
#include "cuda/device/step/step_grid.cuh"

namespace zeroproof::cuda::device {

/// Rows that are at least as long as a piece end at most once in it; others are counted in 32 bits.
class PieceBlocks {
 public:
  ZP_HOST_DEVICE explicit PieceBlocks(const ScalePiece& piece)
      : columns_(piece.columns),
        row_(piece.first / piece.columns),
        column_(piece.first - row_ * piece.columns),
        first_block_(piece.first_block),
        across_(piece.blocks_across),
        row_shift_(piece.row_shift),
        column_shift_(piece.column_shift) {}

  /// The block of element i of the piece.
  ZP_HOST_DEVICE std::int64_t of(int i) const { return block_at(place(i)); }

  /// The block of elements [i, i + step_pack_numel), -1 if they are in several.
  ZP_HOST_DEVICE std::int64_t of_pack(int i) const {
    constexpr int last = step_pack_numel - 1;
    const Place first = place(i);
    if (first.column + last < columns_) {
      return first.column >> column_shift_ == (first.column + last) >> column_shift_
                 ? block_at(first)
                 : -1;
    }
    // Into the next row: with several blocks across, into another block and perhaps back.
    return across_ == 1 && of(i + last) == block_at(first) ? block_at(first) : -1;
  }

 private:
  struct Place {
    std::int64_t row, column;
  };

  ZP_HOST_DEVICE Place place(int i) const {
    std::int64_t column = column_ + i, rows = 0;
    if (columns_ >= ScalePiece::most_numel) {
      if (column >= columns_) {
        column -= columns_;
        rows = 1;
      }
    } else {
      const auto narrow = static_cast<std::uint32_t>(column);
      const auto length = static_cast<std::uint32_t>(columns_);
      rows = narrow / length;
      column = narrow - static_cast<std::uint32_t>(rows) * length;
    }
    return {row_ + rows, column};
  }

  ZP_HOST_DEVICE std::int64_t block_at(const Place& at) const {
    return first_block_ + (at.row >> row_shift_) * across_ + (at.column >> column_shift_);
  }

  std::int64_t columns_, row_, column_, first_block_, across_;
  int row_shift_, column_shift_;
};

ZP_DEVICE inline bool step_goes_on(const StepMemory& memory) {
  return memory.state->halt == 0U && memory.found->skipped == 0U;
}

/// Calls body(piece) for the pieces of this block of threads whose tensors take part; identical for
/// all its threads.
template <class Body>
ZP_DEVICE void for_scale_pieces(const StepMemory& memory, const ScaleMemory& scales,
                                const Body& body) {
  if (!step_goes_on(memory)) return;
  for (std::int64_t n = blockIdx.x; n < scales.num_pieces; n += gridDim.x) {
    const ScalePiece& piece = scales.pieces[n];
    if (has_gradient(memory, piece.tensor)) body(piece);
  }
}

/// Whether the tensor of a block takes part.
ZP_DEVICE inline bool takes_part(const StepMemory& memory, const ScaleMemory& scales,
                                 std::int64_t block) {
  if (memory.has_grad == nullptr) return true;
  std::int64_t low = 0,
               high =
                   scales.num_tensors;  // the last tensor whose blocks begin at or before this one
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (scales.first_blocks[middle] <= block ? low : high) = middle;
  }
  return has_gradient(memory, low);
}

struct DirectValue {
  ZP_HOST_DEVICE static float of(float element) { return element; }
};
struct ValueThroughBf16 {
  ZP_HOST_DEVICE static float of(float element) { return float_of_bf16(bf16_bits(element)); }
};

/// Calls f with a type that computes the value of an element for quantization.
template <class F>
void visit_value(QuantizedValue value, const F& f) {
  value == QuantizedValue::through_bf16 ? f(ValueThroughBf16{}) : f(DirectValue{});
}

}  // namespace zeroproof::cuda::device
