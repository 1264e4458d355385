#pragma once
// The functions of the layers' kernels, one copy for each instruction set (variant.hpp).

#include "cuda/host/simd/layer_kernels.hpp"
#include "cuda/host/simd/variant.hpp"

namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE {

// norm_layer_kernels.cpp
void rms_norm(std::int64_t n, float eps, std::int64_t rows, const float* x, const float* gain, float* y,
              float* deviation);
void layer_norm(std::int64_t n, float eps, std::int64_t rows, const float* x, const float* gain,
                const float* bias, float* y, float* mean, float* deviation);
void norm_backward(std::int64_t n, std::int64_t rows, const float* dy, const float* x, const float* gain,
                   const RowStats& stats, float* dx);
void norm_column_sums(const Tile& tile, const float* dy, const float* x, const RowStats& stats, float* gains,
                      float* biases);

// weight_grad_kernels.cpp
void column_sums(const Tile& tile, const float* x, float* sums);
void fold_columns(const float* partials, std::int64_t columns, float* sums);
void weight_grad(const Tile& tile, std::int64_t tokens, std::int64_t outputs, const float* dy, const float* x,
                 float* weight_grad);

// dropout_kernels.cpp
void bias_dropout(const Dropout& dropout, std::int64_t columns, std::int64_t column, const float* x,
                  const float* bias, const float* residual, float* y, std::int64_t numel);
void bias_dropout_backward(const Dropout& dropout, const float* dy, float* dx, std::int64_t numel);

}  // namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE
