#pragma once

#include <cstdint>

#include "common/base/exec.hpp"
#include "common/base/span.hpp"

namespace zeroproof {

/// Sums over rows: the gradient of a bias.
///
/// Shapes   x: [rows, columns], columns >= 1, rows >= 0. sums: [columns], overwritten; columns is its numel. No
///          overlap.
/// Order    sums_j = the sum of x_(r, j) over r in the 8 blocks of R18 of rows terms; +0 without rows.
/// Exact    ordered.
/// Errors   invalid_argument if columns < 1, or the numel of x is no multiple of it.
/// Contract R2, R18. Source: [Fusion:weight_grad].
using ColumnSumFn = void(const Exec&, Span<const float> x, Span<float> sums);

/// The gradient of a weight, added to weight_grad.
///
/// Shapes   dy: [tokens, outputs], x: [tokens, inputs], tokens >= 0. weight_grad: [outputs, inputs], row after row;
///          outputs, inputs >= 1. No overlap.
/// Order    one fp32 rounding per operation, for weight (o, i):
///            a_t = dy_(t, o) * x_(t, i);  s = the sum of the a_t in the 8 blocks of R18 of tokens terms
///            weight_grad = weight_grad + s, also without tokens, where s = +0
/// Exact    ordered.
/// Errors   invalid_argument if tokens < 0, outputs or inputs < 1, or a view has another numel.
/// Contract R2, R18. Source: [Fusion:weight_grad].
using WeightGradFn = void(const Exec&, std::int64_t tokens, std::int64_t outputs,
                          std::int64_t inputs, Span<const float> dy, Span<const float> x,
                          Span<float> weight_grad);

/// The same from bf16, widened; products are then exact, except for overflow and underflow.
///
/// Shapes, Order, Exact, Errors as WeightGradFn.
/// Contract R2, R8, R18. Source: [Fusion:weight_grad].
using WeightGradBf16Fn = void(const Exec&, std::int64_t tokens, std::int64_t outputs,
                              std::int64_t inputs, Span<const bf16> dy, Span<const bf16> x,
                              Span<float> weight_grad);

}  // namespace zeroproof
