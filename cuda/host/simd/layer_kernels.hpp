#pragma once
// The loops of the layers' host twins over raw memory, compiled once per instruction set like those of kernels.hpp, and
// for the same reason plain pointers alone. Rows stand one after the other; n is the length of one.

#include <cstdint>

#include "common/base/exec.hpp"
#include "cuda/host/simd/kernels.hpp"

namespace zeroproof::cuda::host {

/// What both norms keep of each row; those of rms have no mean.
struct RowStats {
  const float* mean = nullptr;
  const float* deviation = nullptr;
};

/// A tile of a matrix of `columns` columns.
struct Tile {
  std::int64_t columns = 0;
  std::int64_t first_row = 0, end_row = 0;
  std::int64_t first_column = 0, end_column = 0;
};

/// A draw of words; those below threshold drop.
struct Dropout {
  Draw draw = {};
  std::uint32_t threshold = 0;
  float scale = 1.0F;
};

struct LayerKernels {
  void (*rms_norm)(std::int64_t n, float eps, std::int64_t rows, const float* x, const float* gain, float* y,
                   float* deviation);
  void (*layer_norm)(std::int64_t n, float eps, std::int64_t rows, const float* x, const float* gain,
                     const float* bias, float* y, float* mean, float* deviation);
  /// stats.mean decides which norm it is.
  void (*norm_backward)(std::int64_t n, std::int64_t rows, const float* dy, const float* x, const float* gain,
                        const RowStats& stats, float* dx);
  /// Adds dy * u of the tile's rows to gains, and dy to biases (null: nowhere), which are those of column 0 on.
  void (*norm_column_sums)(const Tile& tile, const float* dy, const float* x, const RowStats& stats,
                           float* gains, float* biases);

  /// Adds the tile's rows to sums, which are those of column 0 on.
  void (*column_sums)(const Tile& tile, const float* x, float* sums);
  /// sums[j] = the 8 partials of column j, [8, columns], folded (R18).
  void (*fold_columns)(const float* partials, std::int64_t columns, float* sums);
  /// The weights of one tile, whose columns are inputs and whose rows are outputs.
  void (*weight_grad)(const Tile& tile, std::int64_t tokens, std::int64_t outputs, const float* dy,
                      const float* x, float* weight_grad);

  /// Element 0 is in column `column`. bias: null, or [columns].
  void (*bias_dropout)(const Dropout& dropout, std::int64_t columns, std::int64_t column, const float* x,
                       const float* bias, const float* residual, float* y, std::int64_t numel);
  void (*bias_dropout_backward)(const Dropout& dropout, const float* dy, float* dx, std::int64_t numel);
};

/// The table of one instruction set; Isa::best is resolved. Errors: as best_isa().
const LayerKernels& layer_kernels(Isa isa);

}  // namespace zeroproof::cuda::host
