#pragma once

#include "common/base/exec.hpp"
#include "common/base/span.hpp"
#include "common/contracts/step_scalars.hpp"

namespace zeroproof {

/// AdamW update of one piece of a shard, in place.
///
/// Shapes   grad, master, exp_avg, exp_avg_sq: [numel], the same global range, numel >= 0. No two overlap.
/// Units    grad: unscaled and clipped (d loss / d parameter, mean over micro-batches). step_size: parameter
///          units.
/// Order    one fp32 rounding per operation, for every element (R6):
///            a1 = beta1 * exp_avg;     a2 = one_minus_beta1 * grad;               exp_avg    = a1 + a2
///            h = grad * grad;          b1 = beta2 * exp_avg_sq;
///                                      b2 = one_minus_beta2 * h;                  exp_avg_sq = b1 + b2
///            s = sqrt(exp_avg_sq);     r = s / sqrt_bias_correction2;             d = r + eps
///            q = exp_avg / d;          a = step_size * q
///            has_decay: w = lr_weight_decay * master, u = a + w; else u = a;      master = master - u
/// Exact    bitwise across reference, host and device.
/// Special  NaN and infinities in grad propagate; skipping such steps is the caller's job (found_inf).
/// Errors   invalid_argument if the numels differ.
/// Source   [AdamW:alg2]; eps outside the root as in [Adam:alg1].
using AdamwUpdateFn = void(const Exec&, const StepScalars&, Span<const float> grad, Span<float> master,
                           Span<float> exp_avg, Span<float> exp_avg_sq);

}  // namespace zeroproof
