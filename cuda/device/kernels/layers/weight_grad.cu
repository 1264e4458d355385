#include "cuda/device/kernels/formats/cast_element.cuh"
#include "cuda/device/kernels/layers/column_sums.cuh"
#include "cuda/device/operations.hpp"
#include "cuda/host/layers/layer_checks.hpp"

namespace zeroproof::cuda::device {

namespace {

constexpr int tile = 64;          // outputs and inputs per block of threads
constexpr int depth = 16;         // tokens in shared memory at once
constexpr int side = 16;          // threads along a side of the tile
constexpr int own = tile / side;  // outputs, and inputs, per thread
static_assert(side * side == block_threads);

ZP_DEVICE inline float widened(float value) { return value; }
ZP_DEVICE inline float widened(bf16 value) { return float_of_bf16(value.bits); }

struct WeightShape {
  std::int64_t tokens, outputs, inputs;
};

/// tile * depth values of [tokens, width] from token `first` on and column `column` on; 0 beyond the last column.
template <class T>
ZP_DEVICE inline void load_tile(const T* from, std::int64_t first, int count, std::int64_t column,
                                std::int64_t width, float* to) {
  for (int e = static_cast<int>(threadIdx.x); e < count * tile; e += block_threads) {
    const std::int64_t at = column + e % tile;
    to[e] = at < width ? widened(from[(first + e / tile) * width + at]) : 0.0F;
  }
}

/// Sums of one thread's weights, folded as blocks complete: waits[level] holds the sum of 2^level
/// blocks.
struct WeightSums {
  float sums[own][own];
  float waits[3][own][own];

  ZP_DEVICE void start() {
    ZP_UNROLL
    for (int k = 0; k < own * own; ++k) sums[k / own][k % own] = 0.0F;
  }

  ZP_DEVICE void add(const float* grads, const float* values) {
    ZP_UNROLL
    for (int k = 0; k < own * own; ++k) {
      const float product = grads[k / own * side] * values[k % own * side];
      sums[k / own][k % own] = sums[k / own][k % own] + product;
    }
  }

  /// Ends block b: folds it with the preceding blocks that it completes.
  ZP_DEVICE void end(int b) {
    ZP_UNROLL
    for (int k = 0; k < own * own; ++k) {
      const int o = k / own, i = k % own;
      float sum = sums[o][i];
      if (b % 2 == 0) {
        waits[0][o][i] = sum;
        continue;
      }
      sum = waits[0][o][i] + sum;
      if (b % 4 == 1) {
        waits[1][o][i] = sum;
        continue;
      }
      sum = waits[1][o][i] + sum;
      if (b == 3) {
        waits[2][o][i] = sum;
        continue;
      }
      sums[o][i] = waits[2][o][i] + sum;
    }
  }
};

template <class T>
ZP_KERNEL weight_grad_kernel(WeightShape shape, const T* dy, const T* x, float* weight_grad) {
  ZP_SHARED_ARRAY(float, grads, tile* depth);
  ZP_SHARED_ARRAY(float, values, tile* depth);
  const int down = static_cast<int>(threadIdx.x) / side,
            across = static_cast<int>(threadIdx.x) % side;
  const std::int64_t tiles_across = (shape.inputs + tile - 1) / tile;
  const std::int64_t tiles = (shape.outputs + tile - 1) / tile * tiles_across;
  for (std::int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const std::int64_t first_output = t / tiles_across * tile,
                       first_input = t % tiles_across * tile;
    WeightSums sums;
    ZP_UNROLL
    for (int b = 0; b < 8; ++b) {
      sums.start();
      const std::int64_t end = shape.tokens * (b + 1) / 8;
      for (std::int64_t first = shape.tokens * b / 8; first < end; first += depth) {
        const int count = static_cast<int>(end - first < depth ? end - first : depth);
        __syncthreads();  // the previous content has been read
        load_tile(dy, first, count, first_output, shape.outputs, grads);
        load_tile(x, first, count, first_input, shape.inputs, values);
        __syncthreads();
        for (int k = 0; k < count; ++k)
          sums.add(grads + k * tile + down, values + k * tile + across);
      }
      sums.end(b);
    }
    ZP_UNROLL
    for (int k = 0; k < own * own; ++k) {
      const std::int64_t o = first_output + down + k / own * side,
                         i = first_input + across + k % own * side;
      if (o >= shape.outputs || i >= shape.inputs) continue;
      float& weight = weight_grad[o * shape.inputs + i];
      weight = weight + sums.sums[k / own][k % own];
    }
  }
}

template <class T>
void run_weight_grad(const WeightShape& shape, Span<const T> dy, Span<const T> x,
                     Span<float> weight_grad) {
  const std::int64_t tiles =
      ((shape.outputs + tile - 1) / tile) * ((shape.inputs + tile - 1) / tile);
  launch(weight_grad_kernel<T>, grid_blocks(tiles * block_threads), block_threads, shape, dy.data(),
         x.data(), weight_grad.data());
}

}  // namespace

void column_sum(const Exec&, Span<const float> x, Span<float> sums) {
  const std::int64_t rows = host::check_column_sum(x.size(), sums.size());
  const std::int64_t columns = numel(sums);
  run_column_sums(MatrixElement{x.data(), columns}, rows, columns, sums.data());
}

void weight_grad(const Exec&, std::int64_t tokens, std::int64_t outputs, std::int64_t inputs,
                 Span<const float> dy, Span<const float> x, Span<float> weight_grad) {
  host::check_weight_grad("weight_grad", tokens, outputs, inputs, dy.size(), x.size(),
                          weight_grad.size());
  run_weight_grad({tokens, outputs, inputs}, dy, x, weight_grad);
}

void weight_grad_bf16(const Exec&, std::int64_t tokens, std::int64_t outputs, std::int64_t inputs,
                      Span<const bf16> dy, Span<const bf16> x, Span<float> weight_grad) {
  host::check_weight_grad("weight_grad_bf16", tokens, outputs, inputs, dy.size(), x.size(),
                          weight_grad.size());
  run_weight_grad({tokens, outputs, inputs}, dy, x, weight_grad);
}

}  // namespace zeroproof::cuda::device
