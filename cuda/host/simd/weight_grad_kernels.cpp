// Sums over rows (R18): columns are lanes, and every column adds its rows in their order.

#include "cuda/host/simd/block_sums.hpp"
#include "cuda/host/simd/layer_variant.hpp"

namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE {

void column_sums(const Tile& tile, const float* x, float* sums) {
  std::int64_t r = tile.first_row;
  for (; r + 4 <= tile.end_row; r += 4) {  // one load and store of the sums for four rows
    const float* row = x + r * tile.columns;
    const std::int64_t next = tile.columns;
#pragma omp simd
    for (std::int64_t j = tile.first_column; j < tile.end_column; ++j) {
      const float two = (sums[j] + row[j]) + row[next + j];
      sums[j] = (two + row[2 * next + j]) + row[3 * next + j];
    }
  }
  for (; r < tile.end_row; ++r) {
    const float* row = x + r * tile.columns;
#pragma omp simd
    for (std::int64_t j = tile.first_column; j < tile.end_column; ++j) sums[j] = sums[j] + row[j];
  }
}

void fold_columns(const float* partials, std::int64_t columns, float* sums) {
  const float* const p = partials;
#pragma omp simd
  for (std::int64_t j = 0; j < columns; ++j) {
    const float low = (p[j] + p[columns + j]) + (p[2 * columns + j] + p[3 * columns + j]);
    const float high =
        (p[4 * columns + j] + p[5 * columns + j]) + (p[6 * columns + j] + p[7 * columns + j]);
    sums[j] = low + high;
  }
}

namespace {

constexpr int lanes = 16;     // inputs side by side
constexpr int tile_rows = 4;  // outputs side by side

/// Vector type of both compilers: as many registers as the instruction set needs for 16 floats.
typedef float Lanes
    __attribute__((vector_size(lanes * sizeof(float))));  // NOLINT(modernize-use-using)

/// `count` weights each of `outs` outputs. Whole lanes are copied, a tail element by element.
template <int outs>
void weight_tile(std::int64_t tokens, std::int64_t outputs, std::int64_t inputs, const float* dy,
                 const float* x, float* weight_grad, int count) {
  float partials[sum_blocks][outs][lanes];
  for (int b = 0; b < sum_blocks; ++b) {
    Lanes sums[outs] = {};
    const std::int64_t end = tokens * (b + 1) / 8;
    for (std::int64_t t = tokens * b / 8; t < end; ++t) {
      const float* const row = x + t * inputs;
      Lanes values = {};
      if (count == lanes) {
        __builtin_memcpy(&values, row, sizeof values);
      } else {
        for (int l = 0; l < count; ++l) values[l] = row[l];
      }
      const float* const grads = dy + t * outputs;
      for (int o = 0; o < outs; ++o) {
        const Lanes product = values * grads[o];
        sums[o] = sums[o] + product;
      }
    }
    for (int o = 0; o < outs; ++o) __builtin_memcpy(partials[b][o], &sums[o], sizeof sums[o]);
  }
  for (int o = 0; o < outs; ++o) {
    float* const row = weight_grad + o * inputs;
    for (int l = 0; l < count; ++l) {
      float sums[sum_blocks];
      for (int b = 0; b < sum_blocks; ++b) sums[b] = partials[b][o][l];
      row[l] = row[l] + folded(sums, sum_blocks);
    }
  }
}

}  // namespace

void weight_grad(const Tile& tile, std::int64_t tokens, std::int64_t outputs, const float* dy,
                 const float* x, float* weight_grad) {
  const std::int64_t inputs = tile.columns;
  for (std::int64_t i = tile.first_column; i < tile.end_column; i += lanes) {
    const std::int64_t left = tile.end_column - i;
    const int count = static_cast<int>(left < lanes ? left : lanes);
    std::int64_t o = tile.first_row;
    for (; o + tile_rows <= tile.end_row; o += tile_rows) {
      weight_tile<tile_rows>(tokens, outputs, inputs, dy + o, x + i, weight_grad + o * inputs + i,
                             count);
    }
    for (; o < tile.end_row; ++o) {
      weight_tile<1>(tokens, outputs, inputs, dy + o, x + i, weight_grad + o * inputs + i, count);
    }
  }
}

}  // namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE
