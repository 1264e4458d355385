#pragma once

#include <optional>

#include "common/base/exec.hpp"
#include "common/base/span.hpp"

namespace zeroproof {

/// Clip coefficient from the global norm.
///
/// Order    in fp64: s = grad_norm + 1e-6; q = max_norm / s; clip_coef = fp32(q < 1 ? q : 1); NaN if
///          grad_norm is NaN.
/// Exact    bitwise. No max_norm, or max_norm = 0: clipping is off and the coefficient is 1, whatever the
///          norm.
/// Errors   invalid_argument if max_norm is negative, NaN or infinite.
/// Contract R12. The 1e-6 is added to the norm, as torch.nn.utils.clip_grad_norm_ does: [Clip:coef].
using ClipCoefFn = float(double grad_norm, std::optional<double> max_norm);

/// grad[i] = unscaled_grad[i] * clip_coef, always evaluated (also for 1).
///
/// Shapes   unscaled_grad, grad: [numel], numel >= 0; the same buffer, or no overlap.
/// Exact    bitwise; one fp32 rounding.
/// Errors   invalid_argument if the numels differ.
/// Contract R6.
using ClipFn = void(const Exec&, float clip_coef, Span<const float> unscaled_grad,
                    Span<float> grad);

/// Clips every element to [-clip_value, clip_value], in place: x > clip_value becomes clip_value, x < -clip_value
/// becomes -clip_value, everything else (NaN, -0, the limits themselves) keeps its bits.
///
/// Shapes   grad: [numel], numel >= 0.
/// Exact    bitwise; no rounding.
/// Errors   invalid_argument unless clip_value is finite and > 0.
/// Contract R6. Source: [Clip:value].
using ClipValueFn = void(const Exec&, float clip_value, Span<float> grad);

}  // namespace zeroproof
