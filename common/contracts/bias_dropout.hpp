#pragma once

#include <cstdint>

#include "common/base/exec.hpp"
#include "common/base/span.hpp"

namespace zeroproof {

/// Random words of a dropout (R15).
struct DropoutDraw {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;         ///< its low 32 bits enter the counter
  std::uint64_t first_index = 0;  ///< index of x[0]
};

/// Stream number of dropout in R15.
inline constexpr std::uint32_t dropout_stream = 0x44524F50;

/// dropout(x + bias) + residual.
///
/// Shapes   x, residual, y: [rows, columns], columns >= 1, rows >= 0. bias: [columns], or empty: none. No overlap.
/// Order    in fp64:  T = floor(probability * 2^32);  scale = fp32(1 / (1 - probability))
///          one fp32 rounding per operation, for element i; w is the word of index first_index + i (R15):
///            u = x + bias[j], or x without a bias
///            d = u * scale if w >= T, otherwise +0;  y = d + residual
///          The product is always evaluated, also with a scale of 1.
/// Exact    drawn: bitwise, given the draw.
/// Special  a dropped NaN or infinity becomes residual.
/// Errors   invalid_argument if columns < 1, the numel of x is no multiple of columns, y or residual has another one,
///          bias is neither empty nor [columns], or probability is not in [0, 1).
/// Contract R2, R15. Source: [Fusion:dropout].
using BiasDropoutFn = void(const Exec&, const DropoutDraw& draw, std::int64_t columns,
                           double probability, Span<const float> x, Span<const float> bias,
                           Span<const float> residual, Span<float> y);

/// d loss / d x of BiasDropoutFn; that of the bias is its sum over rows (ColumnSumFn), that of the residual is dy.
///
/// Shapes   dy, dx: [numel], the same elements in the same order. No overlap.
/// Order    T, scale and w as BiasDropoutFn:  dx = dy * scale if w >= T, otherwise +0
/// Exact    drawn: bitwise, given the draw.
/// Errors   invalid_argument if the numels differ, or probability is not in [0, 1).
/// Contract R2, R15. Source: [Fusion:dropout].
using BiasDropoutBackwardFn = void(const Exec&, const DropoutDraw& draw, double probability,
                                   Span<const float> dy, Span<float> dx);

}  // namespace zeroproof
