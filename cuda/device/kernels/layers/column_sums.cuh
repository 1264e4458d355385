#pragma once
// Sums over the rows of a matrix in the 8 blocks of R18: one block of threads for 32 adjacent
// columns, one warp for each block of rows.

#include "cuda/device/kernels/layers/row_threads.cuh"

namespace zeroproof::cuda::device {

/// sums[j] = the sum of term(r, j) over all rows r.
template <class Term>
ZP_KERNEL column_sums_kernel(Term term, std::int64_t rows, std::int64_t columns, float* sums) {
  ZP_SHARED_ARRAY(float, partials, block_threads);
  constexpr int width = block_threads / 8;
  const int lane = static_cast<int>(threadIdx.x % width);
  const int block = static_cast<int>(threadIdx.x / width);
  const std::int64_t end = rows * (block + 1) / 8;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * width;
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * width; first < columns;
       first += stride) {
    const std::int64_t column = first + lane;
    float mine = 0.0F;
    if (column < columns) {
      for (std::int64_t r = rows * block / 8; r < end; ++r) mine = mine + term.value(r, column);
    }
    partials[lane * 8 + block] = mine;
    __syncthreads();
    if (block == 0 && column < columns) sums[column] = fold_blocks(partials + lane * 8, 8);
    __syncthreads();  // the next columns may overwrite them
  }
}

/// columns >= 1; without rows the sums are +0.
template <class Term>
void run_column_sums(const Term& term, std::int64_t rows, std::int64_t columns, float* sums) {
  launch(column_sums_kernel<Term>, grid_blocks(columns * 8), block_threads, term, rows, columns,
         sums);
}

/// Elements of a matrix, unchanged.
struct MatrixElement {
  const float* x;
  std::int64_t columns;

  ZP_DEVICE float value(std::int64_t r, std::int64_t j) const { return x[r * columns + j]; }
};

}  // namespace zeroproof::cuda::device
