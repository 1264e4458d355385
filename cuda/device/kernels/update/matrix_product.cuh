#pragma once
// Products of R27. A block of threads computes tiles of the product, a thread 4 x 4 elements of a
// tile in registers. The 8 sums of an element are folded as their blocks end, so that at most four
// of them exist.

#include "common/contracts/matrix_product.hpp"
#include "cuda/device/kernels/base/pack.cuh"
#include "cuda/device/kernels/base/step_ends.cuh"
#include "cuda/device/kernels/formats/cast_element.cuh"
#include "cuda/device/runtime/launch.hpp"
#include "cuda/device/runtime/runtime.hpp"

namespace zeroproof::cuda::device {

/// round(x) of R28.
ZP_HOST_DEVICE inline float rounded(float x, bool to_bf16) {
  return to_bf16 ? float_of_bf16(bf16_bits(x)) : x;
}

/// The operands of a product, and what is stored of an element P_ij of it.
struct ProductJob {
  std::int64_t rows, columns, inner;
  const float* left;     // [rows, inner]
  const float* right;    // [columns, inner], or [inner, columns]
  float* product;        // [rows, columns]
  bool rounds_factors;   // to bf16; not needed for factors that are rounded already
  float left_scale = 1;  // with scales_left: factors are round(left_scale * left_iq)
  bool scales_left = false;

  // With `added`, product_ij = round(w + p), w = added_scale * added_ij, p = product_scale * P_ij,
  // where each of P_ij, w and p is rounded too with rounds_each. Without: P_ij, rounded with
  // rounds_product.
  const float* added = nullptr;  // [rows, columns]
  float added_scale = 1;
  float product_scale = 1;
  bool scales_product = false;
  bool rounds_each = false;
  bool rounds_product = false;
  StepEnds ends = {};
};

namespace matrix {

inline constexpr int tile = 64;   // rows and columns of the product per block of threads
inline constexpr int depth = 16;  // terms in shared memory at once
inline constexpr int own = 4;     // rows, and columns, per thread
inline constexpr int side = tile / own;
static_assert(side * side == block_threads && own == 16 / sizeof(float));

/// Rows of an operand in shared memory: term q of row r is element q * pitch + r. Longer than a
/// tile, so that threads that store terms of one row use several banks.
inline constexpr int pitch = tile + own;

/// Terms [first, first + count) of the tile's rows of an operand [width, inner]; +0 beyond the last
/// row.
template <class Load>
ZP_DEVICE inline void load_rows(std::int64_t first_row, std::int64_t width, std::int64_t first,
                                int count, const Load& load, float* to) {
  for (int e = static_cast<int>(threadIdx.x); e < tile * depth; e += block_threads) {
    const int r = e / depth, q = e % depth;
    if (q >= count) continue;
    to[q * pitch + r] = first_row + r < width ? load(first_row + r, first + q) : 0.0F;
  }
}

/// The same of an operand [inner, width], with other threads for the elements: adjacent ones read
/// adjacent elements.
template <class Load>
ZP_DEVICE inline void load_columns(std::int64_t first_row, std::int64_t width, std::int64_t first,
                                   int count, const Load& load, float* to) {
  for (int e = static_cast<int>(threadIdx.x); e < tile * count; e += block_threads) {
    const int r = e % tile, q = e / tile;
    to[q * pitch + r] = first_row + r < width ? load(first_row + r, first + q) : 0.0F;
  }
}

/// Sums of one thread's elements: waits[level] is the sum of 2^level blocks.
struct TileSums {
  float sums[own][own];
  float waits[3][own][own];

  ZP_DEVICE void start() {
    ZP_UNROLL
    for (int k = 0; k < own * own; ++k) sums[k / own][k % own] = 0.0F;
  }

  ZP_DEVICE void add(const Pack<float>& left, const Pack<float>& right) {
    ZP_UNROLL
    for (int k = 0; k < own * own; ++k) {
      float& sum = sums[k / own][k % own];
      sum = __fmaf_rn(left.v[k / own], right.v[k % own], sum);
    }
  }

  /// Ends block b of R18: folds it with the preceding blocks that it completes. After b = 7, sums
  /// has the elements.
  ZP_DEVICE void end(int b) {
    ZP_UNROLL
    for (int k = 0; k < own * own; ++k) {
      const int i = k / own, j = k % own;
      float sum = sums[i][j];
      sums[i][j] = 0.0F;  // of the next block
      if (b % 2 == 0) {
        waits[0][i][j] = sum;
        continue;
      }
      sum = waits[0][i][j] + sum;
      if (b % 4 == 1) {
        waits[1][i][j] = sum;
        continue;
      }
      sum = waits[1][i][j] + sum;
      if (b == 3) {
        waits[2][i][j] = sum;
        continue;
      }
      sums[i][j] = waits[2][i][j] + sum;
    }
  }
};

ZP_DEVICE inline float stored(const ProductJob& job, std::int64_t at, float sum) {
  if (job.added == nullptr) return rounded(sum, job.rounds_product);
  float p = rounded(sum, job.rounds_each);
  if (job.scales_product) {
    const float v = job.product_scale * p;
    p = rounded(v, job.rounds_each);
  }
  const float u = job.added_scale * job.added[at];
  const float w = rounded(u, job.rounds_each);
  return rounded(w + p, job.rounds_product);
}

}  // namespace matrix

/// symmetric: left and right are one matrix, and `added` is symmetric; tiles below the diagonal are
/// copies. by_rows: right is [columns, inner]. A symmetric product is by rows.
template <bool symmetric, bool by_rows>
ZP_KERNEL_BLOCKS(2)
matrix_product_kernel(ProductJob job) {
  using namespace matrix;
  ZP_SHARED_ARRAY(Pack<float>, left_packs, (depth * pitch / own));
  ZP_SHARED_ARRAY(Pack<float>, right_packs, (depth * pitch / own));
  if (job.ends.ended()) return;
  float* const lefts = reinterpret_cast<float*>(left_packs);
  float* const rights = reinterpret_cast<float*>(right_packs);
  const int down = static_cast<int>(threadIdx.x) / side,
            across = static_cast<int>(threadIdx.x) % side;
  const auto left_term = [&job](std::int64_t i, std::int64_t q) {
    const float x = job.left[i * job.inner + q];
    return rounded(job.scales_left ? job.left_scale * x : x, job.rounds_factors);
  };
  const auto right_term = [&job](std::int64_t j, std::int64_t q) {
    return rounded(job.right[by_rows ? j * job.inner + q : q * job.columns + j],
                   job.rounds_factors);
  };
  const std::int64_t tiles_across = (job.columns + tile - 1) / tile;
  const std::int64_t tiles = (job.rows + tile - 1) / tile * tiles_across;
  for (std::int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const std::int64_t first_row = t / tiles_across * tile, first_column = t % tiles_across * tile;
    if (symmetric && first_row > first_column) continue;
    const std::int64_t i0 = first_row + down * own, j0 = first_column + across * own;
    const bool computes = i0 < job.rows && j0 < job.columns;
    TileSums sums;
    sums.start();
    int b = 0;  // the block of R18 that the next term belongs to
    std::int64_t end = job.inner / 8;
    for (; b < 8 && end == 0; end = job.inner * (b + 1) / 8) sums.end(b++);
    for (std::int64_t first = 0; first < job.inner; first += depth) {
      const int count = static_cast<int>(job.inner - first < depth ? job.inner - first : depth);
      __syncthreads();  // the previous content has been read
      load_rows(first_row, job.rows, first, count, left_term, lefts);
      if (by_rows) {
        load_rows(first_column, job.columns, first, count, right_term, rights);
      } else {
        load_columns(first_column, job.columns, first, count, right_term, rights);
      }
      __syncthreads();
      if (!computes) continue;
      for (int q = 0; q < count;) {
        const int stop = static_cast<int>(end - first < count ? end - first : count);
        for (; q < stop; ++q) {
          sums.add(load_pack(lefts + q * pitch + down * own),
                   load_pack(rights + q * pitch + across * own));
        }
        for (; b < 8 && end == first + q; end = job.inner * (b + 1) / 8) sums.end(b++);
      }
    }
    if (!computes) continue;
    ZP_UNROLL
    for (int k = 0; k < own * own; ++k) {
      const std::int64_t i = i0 + k / own, j = j0 + k % own;
      if (i >= job.rows || j >= job.columns) continue;
      const float value = stored(job, i * job.columns + j, sums.sums[k / own][k % own]);
      job.product[i * job.columns + j] = value;
      if (symmetric && first_row != first_column) job.product[j * job.columns + i] = value;
    }
  }
}

/// Enqueues a product. by_rows as for the kernel; symmetric if both operands are one matrix. No
/// launch for a product without elements.
inline void enqueue_product(const ProductJob& job, bool by_rows) {
  using matrix::tile;
  const std::int64_t tiles = ((job.rows + tile - 1) / tile) * ((job.columns + tile - 1) / tile);
  if (tiles == 0) return;
  const int blocks = grid_blocks(tiles * block_threads);
  if (!by_rows) {
    launch(matrix_product_kernel<false, false>, blocks, block_threads, job);
  } else if (job.left == job.right && !job.scales_left && job.rows == job.columns) {
    launch(matrix_product_kernel<true, true>, blocks, block_threads, job);
  } else {
    launch(matrix_product_kernel<false, true>, blocks, block_threads, job);
  }
}

}  // namespace zeroproof::cuda::device
