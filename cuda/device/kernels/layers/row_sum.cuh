#pragma once
// The sum of every row in the 8 blocks of R18, one block of threads per row: a warp computes 32
// adjacent terms of its block of the row, and its first thread adds them in order.

#include "cuda/device/runtime/launch.hpp"
#include "cuda/device/runtime/runtime.hpp"

namespace zeroproof::cuda::device {

/// operation.summand(row, column): called once for every element.
template <class Operation>
ZP_KERNEL row_sum_kernel(Operation operation, std::int64_t rows, std::int64_t columns,
                         float* sums) {
  static_assert(block_threads == 8 * 32);
  ZP_SHARED_ARRAY(float, summands, block_threads);
  ZP_SHARED_ARRAY(float, parts, 8);
  const int part = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t begin = columns * part / 8;
  const std::int64_t count = columns * (part + 1) / 8 - begin;
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    float sum = 0.0F;
    for (std::int64_t base = 0; base * 8 < columns + 7; base += 32) {  // as often in every warp
      if (base + lane < count) summands[threadIdx.x] = operation.summand(row, begin + base + lane);
      __syncthreads();
      if (lane == 0) {
        for (int k = 0; k < 32 && base + k < count; ++k) sum = sum + summands[32 * part + k];
      }
      __syncthreads();
    }
    if (lane == 0) parts[part] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
      const float low = (parts[0] + parts[1]) + (parts[2] + parts[3]);
      const float high = (parts[4] + parts[5]) + (parts[6] + parts[7]);
      sums[row] = low + high;
    }
  }
}

/// rows > 0.
template <class Operation>
void run_row_sums(const Operation& operation, std::int64_t rows, std::int64_t columns,
                  float* sums) {
  launch(row_sum_kernel<Operation>, grid_blocks(rows * block_threads), block_threads, operation,
         rows, columns, sums);
}

}  // namespace zeroproof::cuda::device
