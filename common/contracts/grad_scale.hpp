#pragma once

#include "common/base/exec.hpp"
#include "common/base/span.hpp"

namespace zeroproof {

/// Divides the gradient sum by loss scale and divisor, and detects values that are not finite.
///
/// Shapes   grad_sum, unscaled_grad: [numel], numel >= 0; the same buffer, or no overlap.
/// Units    grad_sum: loss scale * sum over micro-batches. unscaled_grad: mean over micro-batches.
/// Order    unscaled_grad[i] = grad_sum[i] * inv_scale, one fp32 rounding, always evaluated (also for 1).
/// Exact    bitwise.
/// Returns  found_inf of this piece: true if any unscaled_grad is NaN or infinite (checked after the product).
/// Errors   invalid_argument if the numels differ.
/// Contract R6, R14. Source: [MP:scale], [MP:inverse].
using UnscaleFn = bool(const Exec&, float inv_scale, Span<const float> grad_sum,
                       Span<float> unscaled_grad);

}  // namespace zeroproof
