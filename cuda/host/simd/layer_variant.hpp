#pragma once
// The functions of the layers' kernels, one copy for each instruction set (variant.hpp).

#include "cuda/host/simd/layer_kernels.hpp"
#include "cuda/host/simd/variant.hpp"

namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE {

// softmax_kernels.cpp
void causal_softmax(std::int64_t n, float scale, std::int64_t first_row, std::int64_t rows,
                    const float* x, float* y);
void causal_softmax_backward(std::int64_t n, float scale, std::int64_t first_row, std::int64_t rows,
                             const float* dy, const float* y, float* dx);
void masked_softmax(std::int64_t n, float scale, std::int64_t rows, const float* x,
                    const std::uint8_t* mask, float* y);
void masked_softmax_backward(std::int64_t n, float scale, std::int64_t rows, const float* dy,
                             const float* y, const std::uint8_t* mask, float* dx);
void sink_softmax(std::int64_t n, float scale, std::int64_t rows, const float* x, float sink,
                  float* y, float* sink_share);
void sink_softmax_backward(std::int64_t n, float scale, std::int64_t rows, const float* dy,
                           const float* y, const float* sink_share, float* dx, float* sink_grads);
float sum_of_head(std::int64_t batches, std::int64_t heads, std::int64_t positions,
                  std::int64_t head, const float* sink_grads);

// cross_entropy_kernels.cpp
void cross_entropy_max(std::int64_t width, std::int64_t rows, const float* logits,
                       std::uint32_t* largest);
void cross_entropy_sum(const VocabularyColumns& part, std::int64_t rows, const float* logits,
                       const std::uint32_t* largest, const std::int32_t* targets, float* exp_sum,
                       float* shifted_sum, std::uint32_t* target_bits, float* exps);
void cross_entropy_loss(const LossRule& rule, int ranks, std::int64_t all_rows, std::int64_t rows,
                        const std::uint32_t* largest, const std::int32_t* targets,
                        const float* exp_sums, const float* shifted_sums,
                        const std::uint32_t* target_bits, float* loss, float* total,
                        float* log_total);
void cross_entropy_backward(const LossRule& rule, const VocabularyColumns& part, std::int64_t rows,
                            const float* d_loss, const float* logits, const std::uint32_t* largest,
                            const std::int32_t* targets, const float* total, const float* log_total,
                            float* d_logits);

// norm_layer_kernels.cpp
void rms_norm(std::int64_t n, float eps, std::int64_t rows, const float* x, const float* gain,
              float* y, float* deviation);
void layer_norm(std::int64_t n, float eps, std::int64_t rows, const float* x, const float* gain,
                const float* bias, float* y, float* mean, float* deviation);
void norm_backward(std::int64_t n, std::int64_t rows, const float* dy, const float* x,
                   const float* gain, const RowStats& stats, float* dx);
void norm_column_sums(const Tile& tile, const float* dy, const float* x, const RowStats& stats,
                      float* gains, float* biases);

// weight_grad_kernels.cpp
void column_sums(const Tile& tile, const float* x, float* sums);
void fold_columns(const float* partials, std::int64_t columns, float* sums);
void weight_grad(const Tile& tile, std::int64_t tokens, std::int64_t outputs, const float* dy,
                 const float* x, float* weight_grad);

// dropout_kernels.cpp
void bias_dropout(const Dropout& dropout, std::int64_t columns, std::int64_t column, const float* x,
                  const float* bias, const float* residual, float* y, std::int64_t numel);
void bias_dropout_backward(const Dropout& dropout, const float* dy, float* dx, std::int64_t numel);

}  // namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE
