#pragma once

#include <cstdint>

#include "common/base/exec.hpp"
#include "common/base/span.hpp"

namespace zeroproof {

/// Value that replaces a masked score before its exponential.
inline constexpr float masked_score = -10000.0F;

/// Softmax of scaled scores under a causal mask: in every square matrix, row i uses columns 0..i.
///
/// Shapes   x, y: [matrices, n, n], n >= 1, matrices >= 0, row after row. No overlap.
/// Order    one fp32 rounding per operation, for row i of a matrix, j <= i; exp is ElementaryExpFn:
///            v_j = scale * x_j
///            m = the largest v_j; NaN if one is NaN. (Which of two equal zeros it is changes no bit.)
///            d_j = v_j - m;  e_j = exp(d_j)
///            s = the sum of the e_j in the 8 blocks of R18 of n terms, those with j > i counting +0
///            y_j = e_j / s, and +0 for j > i
/// Exact    ordered.
/// Special  x_j with j > i is not read. Results of the operations: an infinite m makes NaN.
/// Errors   invalid_argument if n < 1, the numel of x is no multiple of n * n, or y has another numel. scale may be any
///          value.
/// Contract R2, R4, R18, R23. Source: [Fusion:softmax].
using CausalSoftmaxFn = void(const Exec&, std::int64_t n, float scale, Span<const float> x,
                             Span<float> y);

/// d loss / d x of CausalSoftmaxFn, from its result.
///
/// Shapes   dy, y, dx: [matrices, n, n]; y as written by CausalSoftmaxFn. No overlap.
/// Order    one fp32 rounding per operation, for row i, j <= i:
///            a_j = dy_j * y_j
///            s = the sum of the a_j in the 8 blocks of R18 of n terms, those with j > i counting +0
///            b_j = y_j * s;  c_j = a_j - b_j;  dx_j = scale * c_j, and +0 for j > i
/// Exact    ordered.
/// Special  dy_j and y_j with j > i are not read.
/// Errors   as CausalSoftmaxFn, for all three.
/// Contract R2, R18. Source: [Fusion:softmax_backward].
using CausalSoftmaxBackwardFn = void(const Exec&, std::int64_t n, float scale, Span<const float> dy,
                                     Span<const float> y, Span<float> dx);

/// Softmax of scaled scores, some of which are masked; a completely masked row is 0.
///
/// Shapes   x, y: [rows, n], n >= 1, rows >= 0; mask: [rows, n], masked where it is not 0. No overlap.
/// Order    one fp32 rounding per operation, for one row:
///            v_j = masked_score where masked, otherwise scale * x_j
///            m, d_j and e_j as CausalSoftmaxFn, over the whole row;  s = the sum of the e_j in the 8 blocks of R18
///            y_j = e_j / s
///          A row in which every element is masked has y_j = +0.
/// Exact    ordered.
/// Special  x_j is not read where it is masked. masked_score is a number, not -infinity: y_j may be above 0 where
///          it is masked, if the other scores of the row are as low.
/// Errors   invalid_argument if n < 1, the numel of x is no multiple of n, or mask or y has another numel.
/// Contract R2, R4, R18, R23. Source: [Fusion:softmax], [Fusion:masked].
using MaskedSoftmaxFn = void(const Exec&, std::int64_t n, float scale, Span<const float> x,
                             Span<const std::uint8_t> mask, Span<float> y);

/// d loss / d x of MaskedSoftmaxFn, from its result.
///
/// Shapes   dy, y, dx: [rows, n]; mask as passed to MaskedSoftmaxFn; y as written by it. No overlap.
/// Order    one fp32 rounding per operation, for one row:
///            a_j = dy_j * y_j;  s = the sum of the a_j in the 8 blocks of R18 (all j, masked ones too)
///            b_j = y_j * s;  c_j = a_j - b_j;  dx_j = scale * c_j, and +0 where masked
/// Exact    ordered.
/// Special  a row in which every element is masked has dx_j = +0, whatever dy is.
/// Errors   as MaskedSoftmaxFn, for all of them.
/// Contract R2, R18. Source: [Fusion:softmax_backward], [Fusion:masked].
using MaskedSoftmaxBackwardFn = void(const Exec&, std::int64_t n, float scale, Span<const float> dy,
                                     Span<const float> y, Span<const std::uint8_t> mask,
                                     Span<float> dx);

/// Softmax of scaled scores with a sink: one more score per head, which is part of the sum but not of the result.
/// A sink of 0 is softmax-one.
///
/// Shapes   x, y: [batches, heads, positions, n], n >= 1, positions >= 1, heads >= 1: row r, of n elements, belongs to
///          head floor(r / positions) mod heads. sink: [heads]. sink_share: [rows], the share of the sink, for the
///          backward pass. No overlap.
/// Order    one fp32 rounding per operation, for one row of head h:
///            v_j = scale * x_j
///            m = the largest of the v_j and sink[h]; NaN if one is NaN
///            d_j = v_j - m;  e_j = exp(d_j);  k = exp(sink[h] - m)
///            t = the sum of the e_j in the 8 blocks of R18;  s = t + k
///            y_j = e_j / s;  sink_share = k / s
/// Exact    ordered.
/// Special  results of the operations. A sink of -infinity has share 0, if the row has a finite score.
/// Errors   invalid_argument if n, positions or heads < 1, the numel of x is no multiple of heads * positions * n, y
///          has another one, or sink_share is not [rows].
/// Contract R2, R4, R18, R23. Source: [Fusion:sink].
using SinkSoftmaxFn = void(const Exec&, std::int64_t positions, std::int64_t n, float scale,
                           Span<const float> x, Span<const float> sink, Span<float> y,
                           Span<float> sink_share);

/// d loss / d x and d loss / d sink of SinkSoftmaxFn, from its results.
///
/// Shapes   dy, y, dx: [batches, heads, positions, n]; sink_share: [rows]; d_sink: [heads], overwritten. No overlap.
/// Order    one fp32 rounding per operation, for one row:
///            a_j = dy_j * y_j;  s = the sum of the a_j in the 8 blocks of R18
///            b_j = y_j * s;  c_j = a_j - b_j;  dx_j = scale * c_j
///            z = sink_share * s, with its sign bit flipped
///          d_sink[h] = the sum of z over the rows of head h, in their order (batch after batch, position after
///          position), in the 8 blocks of R18 of batches * positions terms.
/// Exact    ordered.
/// Errors   as SinkSoftmaxFn, for all of them; heads is the numel of d_sink.
/// Contract R2, R18. Source: [Fusion:sink].
using SinkSoftmaxBackwardFn = void(const Exec&, std::int64_t positions, std::int64_t n, float scale,
                                   Span<const float> dy, Span<const float> y,
                                   Span<const float> sink_share, Span<float> dx,
                                   Span<float> d_sink);

}  // namespace zeroproof
