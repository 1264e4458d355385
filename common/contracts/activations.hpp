#pragma once

#include <cstdint>

#include "common/base/exec.hpp"
#include "common/base/span.hpp"

namespace zeroproof {

/// Constants of gelu in its tanh form, and of its fast form.
inline constexpr float gelu_scale = 0x1.988454p-1F;        ///< sqrt(2 / pi)
inline constexpr float gelu_cubic = 0x1.6e4e26p-5F;        ///< 0.044715
inline constexpr float gelu_slope_cubic = 0x1.b6676cp-4F;  ///< 3 * 0.044715 * sqrt(2 / pi)
inline constexpr float quick_gelu_scale = 0x1.b3b646p+0F;  ///< 1.702

/// gelu(x + bias) in the tanh form.
///
/// Shapes   x, y: [rows, columns], columns >= 1, rows >= 0, row after row. bias: [columns], or empty: none. No two
///          overlap.
/// Order    one fp32 rounding per operation, for element j of a row; tanh is ElementaryTanhFn:
///            u = x + bias[j], or x without a bias
///            a = gelu_scale * u;  h = u * u;  c = gelu_cubic * h;  d = 1 + c;  e = a * d;  t = tanh(e)
///            p = 1 + t;  q = 0.5 * u;  y = q * p
/// Exact    bitwise.
/// Special  results of the operations: gelu(-infinity) is NaN, a large negative u gives -0, NaN gives NaN.
/// Errors   invalid_argument if columns < 1, the numel of x is no multiple of columns, y has another numel than x, or
///          bias is neither empty nor [columns].
/// Contract R2, R23. Source: [Fusion:gelu].
using BiasGeluFn = void(const Exec&, std::int64_t columns, Span<const float> x,
                        Span<const float> bias, Span<float> y);

/// d loss / d x of BiasGeluFn; that of the bias is its sum over rows (ColumnSumFn).
///
/// Shapes   dy, dx: like y and x of BiasGeluFn; x and bias as passed to it. No two overlap.
/// Order    u, h, t, p and q as there, then
///            k = t * t;  l = 1 - k;  m = gelu_slope_cubic * h;  n = gelu_scale + m;  r = l * n;  s = q * r
///            v = 0.5 * p;  w = v + s;  dx = dy * w
/// Exact    bitwise.
/// Special  results of the operations: where h or m overflows, r is 0 * infinity, and dx NaN.
/// Errors   as BiasGeluFn, for dy and dx too.
/// Contract R2, R23. Source: [Fusion:gelu_backward].
using BiasGeluBackwardFn = void(const Exec&, std::int64_t columns, Span<const float> dy,
                                Span<const float> x, Span<const float> bias, Span<float> dx);

/// gelu(gate) * linear, where the first half of a row of x is the gate and the second half the linear part.
///
/// Shapes   x: [rows, 2 * columns], columns >= 1, rows >= 0: element j of the gate of row r is x[2 columns r + j], that
///          of the linear part x[2 columns r + columns + j]. bias: [2 * columns] in the order of a row of x, or empty:
///          none. y: [rows, columns]. No two overlap.
/// Order    one fp32 rounding per operation, for element j of a row:
///            u = gate + bias[j];  v = linear + bias[columns + j];  or gate and linear without a bias
///            f = gelu(u), by the operations of BiasGeluFn;  y = f * v
/// Exact    bitwise.
/// Special  results of the operations.
/// Errors   invalid_argument if columns < 1, the numel of y is no multiple of columns, that of x is not twice that of
///          y, or bias is neither empty nor [2 * columns].
/// Contract R2, R23. Source: [Fusion:gated].
using GegluFn = void(const Exec&, std::int64_t columns, Span<const float> x, Span<const float> bias,
                     Span<float> y);

/// d loss / d x of GegluFn.
///
/// Shapes   dy: like y, dx: like x of GegluFn; x and bias as passed to it. No two overlap.
/// Order    u, v and f as there; w of u as in BiasGeluBackwardFn:
///            a = dy * v;  gate of dx = a * w;  linear part of dx = dy * f
/// Exact    bitwise.
/// Special  as BiasGeluBackwardFn.
/// Errors   as GegluFn, for dy and dx too.
/// Contract R2, R23. Source: [Fusion:gated].
using GegluBackwardFn = void(const Exec&, std::int64_t columns, Span<const float> dy,
                             Span<const float> x, Span<const float> bias, Span<float> dx);

/// gate * sigmoid(1.702 * gate) * (linear + offset), optionally times a weight per row.
///
/// Shapes   x, bias, y: as GegluFn. weight: [rows], or empty: none. No two overlap.
/// Order    one fp32 rounding per operation, for element j of row r; sigmoid is ElementarySigmoidFn:
///            u, v as GegluFn
///            a = quick_gelu_scale * u;  s = sigmoid(a);  h = u * s;  w = v + offset;  f = h * w
///            y = f * weight[r], or f without weights
///          The offset is always added, also 0.
/// Exact    bitwise.
/// Special  results of the operations.
/// Errors   as GegluFn; and if weight is neither empty nor [rows]. offset may be any value.
/// Contract R2, R23. Source: [Fusion:gated].
using QuickGegluFn = void(const Exec&, std::int64_t columns, float offset, Span<const float> x,
                          Span<const float> bias, Span<const float> weight, Span<float> y);

/// d loss / d x and d loss / d weight of QuickGegluFn.
///
/// Shapes   dy: like y, dx: like x; x, bias, weight as passed to QuickGegluFn. d_weight: [rows] if there are
///          weights, else empty; overwritten. No two overlap.
/// Order    u, v, a, s, h, w and f as there;  g = dy * weight[r], or dy without weights
///            e = 1 - s;  b = a * e;  c = 1 + b;  d = s * c;  p = g * w
///            gate of dx = p * d;  linear part of dx = g * h
///            d_weight[r] = the sum over j of dy * f, in the 8 blocks of R18
/// Exact    bitwise.
/// Special  results of the operations.
/// Errors   as QuickGegluFn, for dy and dx too; and if d_weight has another numel than weight.
/// Contract R2, R18, R23. Source: [Fusion:gated].
using QuickGegluBackwardFn = void(const Exec&, std::int64_t columns, float offset,
                                  Span<const float> dy, Span<const float> x, Span<const float> bias,
                                  Span<const float> weight, Span<float> dx, Span<float> d_weight);

/// gate * sigmoid(gate) * linear, optionally clamped, and times a weight per row.
///
/// Shapes   x, bias, weight, y: as QuickGegluFn. No two overlap.
/// Order    one fp32 rounding per operation, for element j of row r:
///            u, v as GegluFn
///            limit > 0:   u = u > limit ? limit : u
///                         v = v > limit ? limit : (v < -limit ? -limit : v)        limit = 0: neither
///            s = sigmoid(u);  h = u * s;  f = h * v;  y = f * weight[r], or f without weights
/// Exact    bitwise.
/// Special  results of the operations. A NaN passes the limits.
/// Errors   as QuickGegluFn; and if limit is negative, infinite or NaN (-0 is 0).
/// Contract R2, R23. Source: [Fusion:gated], [Fusion:clamped].
using SwigluFn = void(const Exec&, std::int64_t columns, float limit, Span<const float> x,
                      Span<const float> bias, Span<const float> weight, Span<float> y);

/// d loss / d x and d loss / d weight of SwigluFn.
///
/// Shapes   as QuickGegluBackwardFn.
/// Order    u, v (after the limits), s, h and f as there;  g = dy * weight[r], or dy without weights
///            e = 1 - s;  b = u * e;  c = 1 + b;  d = s * c;  p = g * v
///            gate of dx = p * d;  linear part of dx = g * h
///          limit > 0, for u and v before the limits: the gate of dx is +0 where u > limit, the linear
///          part where v > limit or v < -limit. At a limit the gradient passes.
///            d_weight[r] = the sum over j of dy * f, in the 8 blocks of R18
/// Exact    bitwise.
/// Special  results of the operations; a NaN is not clamped.
/// Errors   as SwigluFn, for dy and dx too; and if d_weight has another numel than weight.
/// Contract R2, R18, R23. Source: [Fusion:gated], [Fusion:clamped].
using SwigluBackwardFn = void(const Exec&, std::int64_t columns, float limit, Span<const float> dy,
                              Span<const float> x, Span<const float> bias, Span<const float> weight,
                              Span<float> dx, Span<float> d_weight);

/// relu(x)^2, optionally times a weight per row.
///
/// Shapes   x, y: [rows, columns], columns >= 1, rows >= 0. weight: [rows], or empty: none. No two overlap.
/// Order    one fp32 rounding per operation, for an element of row r:
///            m = x <= 0 ? +0 : x (NaN stays NaN);  f = m * m;  y = f * weight[r], or f without weights
/// Exact    bitwise.
/// Special  results of the operations.
/// Errors   invalid_argument if columns < 1, the numel of x is no multiple of columns, y has another numel than x, or
///          weight is neither empty nor [rows].
/// Contract R2. Source: [Fusion:squared_relu].
using SquaredReluFn = void(const Exec&, std::int64_t columns, Span<const float> x,
                           Span<const float> weight, Span<float> y);

/// d loss / d x and d loss / d weight of SquaredReluFn.
///
/// Shapes   dy, dx: like x; x and weight as passed to SquaredReluFn. d_weight: [rows] if there are weights,
///          else empty; overwritten. No two overlap.
/// Order    m and f as there;  g = dy * weight[r], or dy without weights;  a = 2 * m;  dx = a * g
///            d_weight[r] = the sum over the row of dy * f, in the 8 blocks of R18
/// Exact    bitwise.
/// Special  results of the operations: where m is 0, dx is a zero with the sign of g, or NaN if g is not finite.
/// Errors   as SquaredReluFn, for dy and dx too; and if d_weight has another numel than weight.
/// Contract R2, R18. Source: [Fusion:squared_relu].
using SquaredReluBackwardFn = void(const Exec&, std::int64_t columns, Span<const float> dy,
                                   Span<const float> x, Span<const float> weight, Span<float> dx,
                                   Span<float> d_weight);

}  // namespace zeroproof
