// Softmax of rows and its gradients. The result's own row holds the exponentials until their sum is known.

#include "common/contracts/softmax.hpp"
#include "cuda/host/simd/block_sums.hpp"
#include "cuda/host/simd/elementary.hpp"
#include "cuda/host/simd/layer_variant.hpp"
#include "cuda/host/simd/ordered_key.hpp"

namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE {
namespace {

/// y[j] = exp(value(j) - m) for j below count, and returns m: the largest of the values and the
/// number with key `key`.
template <class Value>
inline float exp_shifted(std::int64_t count, const Value& value, std::int32_t key, float* y) {
#pragma omp simd reduction(max : key)
  for (std::int64_t j = 0; j < count; ++j) {
    const std::int32_t own = ordered_key(value(j));
    key = own > key ? own : key;
  }
  const float m = float_of_key(key);
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) y[j] = exp_of(value(j) - m);
  return m;
}

inline void divide(float* y, float sum, std::int64_t count) {
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) y[j] = y[j] / sum;
}

inline float sum_of(const Blocks& blocks, const float* y) {
  return sum_of_blocks(blocks, [y](std::int64_t j) { return y[j]; });
}

inline void clear(float* y, std::int64_t begin, std::int64_t end) {
  for (std::int64_t j = begin; j < end; ++j) y[j] = 0.0F;
}

/// dx[j] = scale * (a - y * s) for j below count and +0 from there on; returns s, the sum of all a = dy * y.
inline float row_backward(const Blocks& blocks, std::int64_t n, std::int64_t count, float scale,
                          const float* dy, const float* y, float* dx) {
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) dx[j] = dy[j] * y[j];
  clear(dx, count, n);
  const float s = sum_of(blocks, dx);
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) {
    const float b = y[j] * s;
    const float c = dx[j] - b;
    dx[j] = scale * c;
  }
  return s;
}

}  // namespace

void causal_softmax(std::int64_t n, float scale, std::int64_t first_row, std::int64_t rows,
                    const float* x, float* y) {
  const Blocks blocks = blocks_of(n);
  for (std::int64_t r = 0; r < rows; ++r, x += n, y += n) {
    const std::int64_t seen = (first_row + r) % n + 1;
    exp_shifted(
        seen, [x, scale](std::int64_t j) { return scale * x[j]; }, lowest_key, y);
    clear(y, seen, n);
    divide(y, sum_of(blocks, y), seen);
  }
}

void causal_softmax_backward(std::int64_t n, float scale, std::int64_t first_row, std::int64_t rows,
                             const float* dy, const float* y, float* dx) {
  const Blocks blocks = blocks_of(n);
  for (std::int64_t r = 0; r < rows; ++r, dy += n, y += n, dx += n) {
    row_backward(blocks, n, (first_row + r) % n + 1, scale, dy, y, dx);
  }
}

void masked_softmax(std::int64_t n, float scale, std::int64_t rows, const float* x,
                    const std::uint8_t* mask, float* y) {
  const Blocks blocks = blocks_of(n);
  for (std::int64_t r = 0; r < rows; ++r, x += n, mask += n, y += n) {
    int open = 0;
#pragma omp simd reduction(| : open)
    for (std::int64_t j = 0; j < n; ++j) open |= mask[j] == 0 ? 1 : 0;
    if (open == 0) {
      clear(y, 0, n);
      continue;
    }
    const auto value = [x, mask, scale](std::int64_t j) {
      const float v = scale * x[j];
      return mask[j] != 0 ? masked_score : v;
    };
    exp_shifted(n, value, lowest_key, y);
    divide(y, sum_of(blocks, y), n);
  }
}

void masked_softmax_backward(std::int64_t n, float scale, std::int64_t rows, const float* dy,
                             const float* y, const std::uint8_t* mask, float* dx) {
  const Blocks blocks = blocks_of(n);
  for (std::int64_t r = 0; r < rows; ++r, dy += n, y += n, mask += n, dx += n) {
    row_backward(blocks, n, n, scale, dy, y, dx);
#pragma omp simd
    for (std::int64_t j = 0; j < n; ++j) dx[j] = mask[j] != 0 ? 0.0F : dx[j];
  }
}

void sink_softmax(std::int64_t n, float scale, std::int64_t rows, const float* x, float sink,
                  float* y, float* sink_share) {
  const Blocks blocks = blocks_of(n);
  for (std::int64_t r = 0; r < rows; ++r, x += n, y += n) {
    const float m = exp_shifted(
        n, [x, scale](std::int64_t j) { return scale * x[j]; }, ordered_key(sink), y);
    const float k = exp_of(sink - m);
    const float s = sum_of(blocks, y) + k;
    divide(y, s, n);
    sink_share[r] = k / s;
  }
}

void sink_softmax_backward(std::int64_t n, float scale, std::int64_t rows, const float* dy,
                           const float* y, const float* sink_share, float* dx, float* sink_grads) {
  const Blocks blocks = blocks_of(n);
  for (std::int64_t r = 0; r < rows; ++r, dy += n, y += n, dx += n) {
    const float s = row_backward(blocks, n, n, scale, dy, y, dx);
    const float product = sink_share[r] * s;
    sink_grads[r] = -product;
  }
}

float sum_of_head(std::int64_t batches, std::int64_t heads, std::int64_t positions,
                  std::int64_t head, const float* sink_grads) {
  return sum_of_blocks(blocks_of(batches * positions), [=](std::int64_t i) {
    return sink_grads[(i / positions * heads + head) * positions + i % positions];
  });
}

}  // namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE
