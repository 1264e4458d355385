#pragma once
// Element-wise operations that get the row and the column of an element. If all rows are 16-byte
// aligned, threads process four elements of a row at once, otherwise one. An operation has
//   at(row, column)    one element
//   four(row, column)  four elements of one row, every operand 16-byte aligned: same result (R17)

#include "cuda/device/kernels/base/elementwise.cuh"
#include "cuda/device/kernels/layers/row_of.cuh"

namespace zeroproof::cuda::device {

template <class Operation>
struct ByRows {
  static constexpr int pack_numel = 4;
  Operation operation;
  std::int64_t columns;

  ZP_DEVICE void one(std::int64_t i) const {
    const std::int64_t row = row_of(i, columns);
    operation.at(row, i - row * columns);
  }

  ZP_DEVICE void pack(std::int64_t i) const {
    const std::int64_t row = row_of(i, columns);
    operation.four(row, i - row * columns);
  }
};

/// Pointer of an optional buffer; null if it is empty.
template <class T>
T* pointer_or_null(Span<T> buffer) {
  return buffer.empty() ? nullptr : buffer.data();
}

/// Runs the operation on numel > 0 elements in whole rows. operands: every pointer to rows, or to a
/// row, that four() reads or writes.
template <class Operation, class... T>
void run_by_rows(const Operation& operation, std::int64_t numel, std::int64_t columns,
                 const T*... operands) {
  constexpr std::int64_t pack = ByRows<Operation>::pack_numel;
  const bool aligned =
      ((reinterpret_cast<std::uintptr_t>(operands) % 16 == 0) && ...) && columns % pack == 0;
  const PackSplit split =
      aligned ? PackSplit{numel, 0, numel / pack, pack} : PackSplit{numel, numel, 0, pack};
  launch(elementwise_kernel<ByRows<Operation>>, grid_blocks(aligned ? split.num_packs : numel),
         block_threads, ByRows<Operation>{operation, columns}, split);
}

}  // namespace zeroproof::cuda::device
