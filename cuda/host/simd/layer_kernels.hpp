#pragma once
// The loops of the layers' host implementations over raw memory, compiled once per instruction set
// like those of kernels.hpp and, for the same reason, with plain pointers only. Rows are
// contiguous; n is the length of one.

#include <cstdint>

#include "common/base/exec.hpp"
#include "cuda/host/simd/kernels.hpp"

namespace zeroproof::cuda::host {

/// Per-row statistics stored by both norms; rms has no mean.
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

/// VocabularyPart as plain numbers.
struct VocabularyColumns {
  std::int64_t size = 0;
  int first = 0, count = 0;         ///< blocks
  std::int64_t begin = 0, end = 0;  ///< columns
};

/// Numbers of a cross-entropy that all rows share.
struct LossRule {
  std::int64_t size = 0;
  float z_weight = 0.0F;
  bool smoothed = false;
  float smooth = 0.0F;
  float keep = 1.0F;
  float spread = 0.0F;  ///< part of every column's gradient removed by smoothing
};

struct LayerKernels {
  void (*causal_softmax)(std::int64_t n, float scale, std::int64_t first_row, std::int64_t rows,
                         const float* x, float* y);
  void (*causal_softmax_backward)(std::int64_t n, float scale, std::int64_t first_row,
                                  std::int64_t rows, const float* dy, const float* y, float* dx);
  void (*masked_softmax)(std::int64_t n, float scale, std::int64_t rows, const float* x,
                         const std::uint8_t* mask, float* y);
  void (*masked_softmax_backward)(std::int64_t n, float scale, std::int64_t rows, const float* dy,
                                  const float* y, const std::uint8_t* mask, float* dx);
  /// Rows of one head.
  void (*sink_softmax)(std::int64_t n, float scale, std::int64_t rows, const float* x, float sink,
                       float* y, float* sink_share);
  /// sink_grads: contribution of each row to the gradient of its head's sink.
  void (*sink_softmax_backward)(std::int64_t n, float scale, std::int64_t rows, const float* dy,
                                const float* y, const float* sink_share, float* dx,
                                float* sink_grads);
  /// The sum of sink_grads, [batches, heads, positions], over the rows of one head.
  float (*sum_of_head)(std::int64_t batches, std::int64_t heads, std::int64_t positions,
                       std::int64_t head, const float* sink_grads);

  void (*cross_entropy_max)(std::int64_t width, std::int64_t rows, const float* logits,
                            std::uint32_t* largest);
  /// exps: scratch of one row.
  void (*cross_entropy_sum)(const VocabularyColumns& part, std::int64_t rows, const float* logits,
                            const std::uint32_t* largest, const std::int32_t* targets,
                            float* exp_sum, float* shifted_sum, std::uint32_t* target_bits,
                            float* exps);
  /// The sums of consecutive ranks are all_rows apart.
  void (*cross_entropy_loss)(const LossRule& rule, int ranks, std::int64_t all_rows,
                             std::int64_t rows, const std::uint32_t* largest,
                             const std::int32_t* targets, const float* exp_sums,
                             const float* shifted_sums, const std::uint32_t* target_bits,
                             float* loss, float* total, float* log_total);
  void (*cross_entropy_backward)(const LossRule& rule, const VocabularyColumns& part,
                                 std::int64_t rows, const float* d_loss, const float* logits,
                                 const std::uint32_t* largest, const std::int32_t* targets,
                                 const float* total, const float* log_total, float* d_logits);

  void (*rms_norm)(std::int64_t n, float eps, std::int64_t rows, const float* x, const float* gain,
                   float* y, float* deviation);
  void (*layer_norm)(std::int64_t n, float eps, std::int64_t rows, const float* x,
                     const float* gain, const float* bias, float* y, float* mean, float* deviation);
  /// stats.mean selects the norm.
  void (*norm_backward)(std::int64_t n, std::int64_t rows, const float* dy, const float* x,
                        const float* gain, const RowStats& stats, float* dx);
  /// Adds dy * u of the tile's rows to gains, and dy to biases (null: not added); both start at
  /// column 0.
  void (*norm_column_sums)(const Tile& tile, const float* dy, const float* x, const RowStats& stats,
                           float* gains, float* biases);

  /// Adds the tile's rows to sums, which start at column 0.
  void (*column_sums)(const Tile& tile, const float* x, float* sums);
  /// sums[j] = the 8 partials of column j, [8, columns], folded (R18).
  void (*fold_columns)(const float* partials, std::int64_t columns, float* sums);
  /// The weights of one tile, whose columns are inputs and whose rows are outputs.
  void (*weight_grad)(const Tile& tile, std::int64_t tokens, std::int64_t outputs, const float* dy,
                      const float* x, float* weight_grad);

  /// Element 0 is in column `column`. bias: null, or [columns].
  void (*bias_dropout)(const Dropout& dropout, std::int64_t columns, std::int64_t column,
                       const float* x, const float* bias, const float* residual, float* y,
                       std::int64_t numel);
  void (*bias_dropout_backward)(const Dropout& dropout, const float* dy, float* dx,
                                std::int64_t numel);
};

/// The table of one instruction set; Isa::best is resolved. Errors: as best_isa().
const LayerKernels& layer_kernels(Isa isa);

}  // namespace zeroproof::cuda::host
