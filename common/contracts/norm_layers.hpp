#pragma once

#include <cstdint>

#include "common/base/exec.hpp"
#include "common/base/span.hpp"

namespace zeroproof {

/// Rows divided by the root of their mean square, times a gain.
///
/// Shapes   x, y: [rows, n], n >= 1, rows >= 0. gain: [n]. deviation: [rows], for the backward pass. No overlap.
/// Order    one fp32 rounding per operation, for one row; width = fp32(n):
///            q_j = x_j * x_j;  s = the sum of the q_j in the 8 blocks of R18
///            v = s / width;  w = v + eps;  deviation = sqrt(w)
///            u_j = x_j / deviation;  y_j = u_j * gain_j
/// Exact    ordered.
/// Special  results of the operations: a row of zeros with eps 0 is 0 / 0, NaN.
/// Errors   invalid_argument if n < 1, the numel of x is no multiple of n, y has another one, gain is not [n],
///          deviation not [rows], or eps is negative, infinite or NaN.
/// Contract R2, R4, R18. Source: [Fusion:rms].
using RmsNormFn = void(const Exec&, std::int64_t n, float eps, Span<const float> x,
                       Span<const float> gain, Span<float> y, Span<float> deviation);

/// d loss / d x and d loss / d gain of RmsNormFn.
///
/// Shapes   dy, x, dx: [rows, n]; gain: [n]; deviation: [rows], as written by RmsNormFn. d_gain: [n], overwritten. No
///          overlap.
/// Order    one fp32 rounding per operation, for one row; width = fp32(n):
///            u_j = x_j / deviation;  g_j = dy_j * gain_j;  h_j = g_j * u_j
///            s = the sum of the h_j in the 8 blocks of R18;  k = s / width
///            a_j = u_j * k;  b_j = g_j - a_j;  dx_j = b_j / deviation
///          d_gain_j = the sum of dy_j * u_j over the rows, in the 8 blocks of R18 of rows terms; +0 without rows.
/// Exact    ordered.
/// Errors   as RmsNormFn, for all of them.
/// Contract R2, R4, R18. Source: [Fusion:rms].
using RmsNormBackwardFn = void(const Exec&, std::int64_t n, Span<const float> dy,
                               Span<const float> x, Span<const float> gain,
                               Span<const float> deviation, Span<float> dx, Span<float> d_gain);

/// Rows less their mean, divided by their standard deviation, times a gain, plus a bias.
///
/// Shapes   x, y: [rows, n], n >= 1, rows >= 0. gain, bias: [n]. mean, deviation: [rows], for the backward pass. No
///          overlap.
/// Order    one fp32 rounding per operation, for one row, in two passes; width = fp32(n):
///            s = the sum of the x_j in the 8 blocks of R18;  mean = s / width
///            c_j = x_j - mean;  q_j = c_j * c_j;  t = the sum of the q_j in the 8 blocks of R18
///            v = t / width;  w = v + eps;  deviation = sqrt(w)
///            u_j = c_j / deviation;  p_j = u_j * gain_j;  y_j = p_j + bias_j
/// Exact    ordered.
/// Special  results of the operations.
/// Errors   as RmsNormFn; and if bias is not [n] or mean not [rows].
/// Contract R2, R4, R18. Source: [Fusion:layer_norm].
using LayerNormFn = void(const Exec&, std::int64_t n, float eps, Span<const float> x,
                         Span<const float> gain, Span<const float> bias, Span<float> y,
                         Span<float> mean, Span<float> deviation);

/// d loss / d x, d loss / d gain and d loss / d bias of LayerNormFn.
///
/// Shapes   dy, x, dx: [rows, n]; gain: [n]; mean, deviation: [rows], as written by LayerNormFn. d_gain, d_bias: [n],
///          overwritten. No overlap.
/// Order    one fp32 rounding per operation, for one row; width = fp32(n):
///            c_j = x_j - mean;  u_j = c_j / deviation;  g_j = dy_j * gain_j
///            s = the sum of the g_j in the 8 blocks of R18;  l = s / width
///            h_j = g_j * u_j;  t = the sum of the h_j in the 8 blocks of R18;  k = t / width
///            r_j = g_j - l;  a_j = u_j * k;  b_j = r_j - a_j;  dx_j = b_j / deviation
///          d_gain_j and d_bias_j = the sums of dy_j * u_j and of dy_j over the rows, in the 8 blocks of R18 of rows
///          terms; +0 without rows.
/// Exact    ordered.
/// Errors   as LayerNormFn, for all of them.
/// Contract R2, R4, R18. Source: [Fusion:layer_norm].
using LayerNormBackwardFn = void(const Exec&, std::int64_t n, Span<const float> dy,
                                 Span<const float> x, Span<const float> gain,
                                 Span<const float> mean, Span<const float> deviation,
                                 Span<float> dx, Span<float> d_gain, Span<float> d_bias);

}  // namespace zeroproof
