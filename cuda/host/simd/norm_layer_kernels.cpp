// Norms of rows and their gradients. Divisions are done in vector loops; sums read their results.

#include "cuda/host/simd/block_sums.hpp"
#include "cuda/host/simd/layer_variant.hpp"

namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE {

void rms_norm(std::int64_t n, float eps, std::int64_t rows, const float* x, const float* gain,
              float* y, float* deviation) {
  const Blocks blocks = blocks_of(n);
  const float width = static_cast<float>(n);
  for (std::int64_t r = 0; r < rows; ++r, x += n, y += n) {
    const float s = sum_of_blocks(blocks, [x](std::int64_t j) { return x[j] * x[j]; });
    const float v = s / width;
    const float w = v + eps;
    const float root = __builtin_sqrtf(w);
    deviation[r] = root;
#pragma omp simd
    for (std::int64_t j = 0; j < n; ++j) {
      const float u = x[j] / root;
      y[j] = u * gain[j];
    }
  }
}

void layer_norm(std::int64_t n, float eps, std::int64_t rows, const float* x, const float* gain,
                const float* bias, float* y, float* mean, float* deviation) {
  const Blocks blocks = blocks_of(n);
  const float width = static_cast<float>(n);
  for (std::int64_t r = 0; r < rows; ++r, x += n, y += n) {
    const float s = sum_of_blocks(blocks, [x](std::int64_t j) { return x[j]; });
    const float middle = s / width;
    const float t = sum_of_blocks(blocks, [x, middle](std::int64_t j) {
      const float c = x[j] - middle;
      return c * c;
    });
    const float v = t / width;
    const float w = v + eps;
    const float root = __builtin_sqrtf(w);
    mean[r] = middle;
    deviation[r] = root;
#pragma omp simd
    for (std::int64_t j = 0; j < n; ++j) {
      const float c = x[j] - middle;
      const float u = c / root;
      const float p = u * gain[j];
      y[j] = p + bias[j];
    }
  }
}

namespace {

/// u_j. With rms nothing is subtracted.
template <bool has_mean>
inline float normed(float x, float mean, float deviation) {
  if constexpr (has_mean) {
    const float c = x - mean;
    return c / deviation;
  } else {
    return x / deviation;
  }
}

template <bool has_mean>
void rows_backward(std::int64_t n, std::int64_t rows, const float* dy, const float* x,
                   const float* gain, const RowStats& stats, float* dx) {
  const Blocks blocks = blocks_of(n);
  const float width = static_cast<float>(n);
  for (std::int64_t r = 0; r < rows; ++r, dy += n, x += n, dx += n) {
    const float mean = has_mean ? stats.mean[r] : 0.0F;
    const float deviation = stats.deviation[r];
#pragma omp simd
    for (std::int64_t j = 0; j < n; ++j) {  // dx holds h until its sum is known
      const float g = dy[j] * gain[j];
      dx[j] = g * normed<has_mean>(x[j], mean, deviation);
    }
    float l = 0.0F;
    if constexpr (has_mean) {
      l = sum_of_blocks(blocks, [dy, gain](std::int64_t j) { return dy[j] * gain[j]; }) / width;
    }
    const float k = sum_of_blocks(blocks, [dx](std::int64_t j) { return dx[j]; }) / width;
#pragma omp simd
    for (std::int64_t j = 0; j < n; ++j) {
      const float g = dy[j] * gain[j];
      const float rest = has_mean ? g - l : g;
      const float a = normed<has_mean>(x[j], mean, deviation) * k;
      const float b = rest - a;
      dx[j] = b / deviation;
    }
  }
}

template <bool has_mean>
void column_sums_of(const Tile& tile, const float* dy, const float* x, const RowStats& stats,
                    float* gains, float* biases) {
  for (std::int64_t r = tile.first_row; r < tile.end_row; ++r) {
    const float mean = has_mean ? stats.mean[r] : 0.0F;
    const float deviation = stats.deviation[r];
    const std::int64_t row = r * tile.columns;
#pragma omp simd
    for (std::int64_t j = tile.first_column; j < tile.end_column; ++j) {
      const float product = dy[row + j] * normed<has_mean>(x[row + j], mean, deviation);
      gains[j] = gains[j] + product;
    }
    if (biases == nullptr) continue;
#pragma omp simd
    for (std::int64_t j = tile.first_column; j < tile.end_column; ++j)
      biases[j] = biases[j] + dy[row + j];
  }
}

}  // namespace

void norm_backward(std::int64_t n, std::int64_t rows, const float* dy, const float* x,
                   const float* gain, const RowStats& stats, float* dx) {
  if (stats.mean != nullptr) {
    rows_backward<true>(n, rows, dy, x, gain, stats, dx);
  } else {
    rows_backward<false>(n, rows, dy, x, gain, stats, dx);
  }
}

void norm_column_sums(const Tile& tile, const float* dy, const float* x, const RowStats& stats,
                      float* gains, float* biases) {
  if (stats.mean != nullptr) {
    column_sums_of<true>(tile, dy, x, stats, gains, biases);
  } else {
    column_sums_of<false>(tile, dy, x, stats, gains, biases);
  }
}

}  // namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE
