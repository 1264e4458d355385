#pragma once

#include "common/base/exec.hpp"
#include "common/base/span.hpp"
#include "common/contracts/step_scalars.hpp"

namespace zeroproof {

struct AdamOptions {
  bool amsgrad = false;   ///< divide by the largest second moment so far
  bool maximize = false;  ///< ascend: the sign of grad is flipped first
};

/// AdamW update of one piece of a shard, in place: decay is decoupled from the gradient.
///
/// Shapes   grad, master, exp_avg, exp_avg_sq: [numel], the same global range, numel >= 0.
///          max_exp_avg_sq: [numel] with amsgrad, otherwise empty. No two overlap.
/// Units    grad: unscaled and clipped (d loss / d parameter, mean over micro-batches or tokens). step_size:
///          parameter units.
/// Order    one fp32 rounding per operation, for every element (R6); g is grad, or with maximize grad with its
///          sign bit flipped:
///            a1 = beta1 * exp_avg;     a2 = one_minus_beta1 * g;                  exp_avg    = a1 + a2
///            h = g * g;                b1 = beta2 * exp_avg_sq;
///                                      b2 = one_minus_beta2 * h;                  exp_avg_sq = b1 + b2
///            amsgrad: max_exp_avg_sq = (max_exp_avg_sq >= exp_avg_sq) ? max_exp_avg_sq : exp_avg_sq
///            s = sqrt(exp_avg_sq), with amsgrad sqrt(max_exp_avg_sq); r = s / sqrt_bias_correction2; d = r + eps
///            q = exp_avg / d;          a = step_size * q
///            has_decay: w = lr_weight_decay * master, u = a + w; else u = a;      master = master - u
/// Exact    bitwise across reference, host and device.
/// Special  NaN and infinities in grad propagate; skipping such steps is the caller's job (found_inf). A NaN
///          second moment replaces the maximum, and a NaN maximum is replaced.
/// Errors   invalid_argument if the numels differ.
/// Source   [AdamW:alg2], in the units of [AdamW:lr]; eps outside the root as in [Adam:alg1]; the maximum:
///          [Adam:amsgrad].
using AdamwUpdateFn = void(const Exec&, const AdamOptions&, const StepScalars&,
                           Span<const float> grad, Span<float> master, Span<float> exp_avg,
                           Span<float> exp_avg_sq, Span<float> max_exp_avg_sq);

/// Adam update of one piece of a shard, in place: decay is part of the gradient (L2).
///
/// Shapes, Units, Exact, Special, Errors as AdamwUpdateFn.
/// Order    as AdamwUpdateFn, except that the decay is added before the moments only:
///            has_decay: w = weight_decay * master; g = g + w        (after the sign flip of maximize)
///            ... moments, denominator, q and a from this g ...;     master = master - a
/// Source   [Adam:alg1], decay as in [Adam:l2].
using AdamUpdateFn = AdamwUpdateFn;

/// AdamW update of one piece of a shard whose bf16 parameter is its own master, in place (R25).
///
/// Shapes   grad, master: bf16; exp_avg, exp_avg_sq, max_exp_avg_sq: fp32. Otherwise as
///          AdamwUpdateFn.
/// Units, Special, Errors as AdamwUpdateFn.
/// Order    in fp32, with one rounding to bf16, the last operation (neither the decay nor a moment
///          is rounded to bf16):
///            g = grad widened; p = master widened                            (exact, R8)
///            AdamwUpdateFn of g, with p in place of master
///            master = p cast to bf16, to nearest even                        (R8)
/// Exact    bitwise across reference and host. A device has it in the update of a stored state.
/// Source   R25. An update below half a unit in the last place of the parameter is lost.
using AdamwUpdateBf16Fn = void(const Exec&, const AdamOptions&, const StepScalars&,
                               Span<const bf16> grad, Span<bf16> master, Span<float> exp_avg,
                               Span<float> exp_avg_sq, Span<float> max_exp_avg_sq);

/// Adam update of one piece of a shard whose bf16 parameter is its own master, in place (R25).
///
/// Shapes, Units, Exact, Special, Errors as AdamwUpdateBf16Fn.
/// Order    as AdamwUpdateBf16Fn, with AdamUpdateFn for the update in fp32.
/// Source   R25.
using AdamUpdateBf16Fn = AdamwUpdateBf16Fn;

}  // namespace zeroproof
