#pragma once
// Rows of a matrix, eight threads per row: each thread adds one of the 8 blocks of R18;
// element-wise work is interleaved over the eight. An operation has row(const RowThread&), which
// all threads of a block enter at the same time, including threads without a row, so that all of
// them reach its barriers.

#include "cuda/device/kernels/base/host_device.cuh"
#include "cuda/device/runtime/launch.hpp"
#include "cuda/device/runtime/runtime.hpp"

namespace zeroproof::cuda::device {

inline constexpr int row_threads = 8;
inline constexpr int rows_at_once = block_threads / row_threads;

/// ((s0+s1)+(s2+s3))+((s4+s5)+(s6+s7)), over the first `count` sums.
ZP_HOST_DEVICE inline float fold_blocks(const float* sums, int count) {
  const float s01 = count > 1 ? sums[0] + sums[1] : sums[0];
  const float s03 = count > 2 ? s01 + (sums[2] + sums[3]) : s01;
  return count > 4 ? s03 + ((sums[4] + sums[5]) + (sums[6] + sums[7])) : s03;
}

/// The share of one thread in a row: `lane` of eight. A thread without a row has row 0 and no
/// element.
struct RowThread {
  std::int64_t row;
  std::int64_t n;  // elements of the row
  int lane;
  bool here;

  /// Calls f for each element of this thread; adjacent elements belong to adjacent threads.
  template <class Body>
  ZP_DEVICE void elements(const Body& body) const {
    for (std::int64_t j = lane; j < n; j += row_threads) body(j);
  }

  /// The sum of term(j) over the thread's own block [begin, end), folded with those of the other
  /// threads; there are count blocks.
  template <class Term>
  ZP_DEVICE float sum(std::int64_t begin, std::int64_t end, int count, const Term& term) const {
    ZP_SHARED_ARRAY(float, sums, block_threads);
    float mine = 0.0F;
    for (std::int64_t j = begin; j < end; ++j) mine = mine + term(j);
    sums[threadIdx.x] = mine;
    __syncthreads();
    const float all = fold_blocks(sums + threadIdx.x / row_threads * row_threads, count);
    __syncthreads();  // the next sum may overwrite them
    return all;
  }

  /// The same over the blocks of the whole row.
  template <class Term>
  ZP_DEVICE float sum(const Term& term) const {
    return sum(n * lane / row_threads, n * (lane + 1) / row_threads, row_threads, term);
  }

  /// The largest number of the row's eight threads.
  ZP_DEVICE std::uint32_t largest(std::uint32_t mine) const {
    ZP_SHARED_ARRAY(std::uint32_t, numbers, block_threads);
    numbers[threadIdx.x] = mine;
    __syncthreads();
    const std::uint32_t* const others = numbers + threadIdx.x / row_threads * row_threads;
    std::uint32_t most = 0;
    for (int k = 0; k < row_threads; ++k) most = others[k] > most ? others[k] : most;
    __syncthreads();  // the next values may overwrite these
    return most;
  }
};

template <class Operation>
ZP_KERNEL rows_kernel(Operation operation, std::int64_t rows, std::int64_t n) {
  const int lane = static_cast<int>(threadIdx.x % row_threads);
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * rows_at_once;
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * rows_at_once; first < rows;
       first += stride) {
    const std::int64_t row = first + threadIdx.x / row_threads;
    const bool here = row < rows;
    operation.row(RowThread{here ? row : 0, here ? n : 0, lane, here});
  }
}

/// Runs the operation on `rows` rows of n elements; launches nothing without rows.
template <class Operation>
void run_rows(const Operation& operation, std::int64_t rows, std::int64_t n) {
  if (rows == 0) return;
  launch(rows_kernel<Operation>, grid_blocks(rows * row_threads), block_threads, operation, rows,
         n);
}

}  // namespace zeroproof::cuda::device
