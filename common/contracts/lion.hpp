#pragma once

#include "common/base/exec.hpp"
#include "common/base/span.hpp"
#include "common/contracts/step_scalars.hpp"

namespace zeroproof {

struct LionOptions {
  bool maximize = false;  ///< ascend: the sign of grad is flipped first
};

/// Lion update of one piece of a shard, in place: every element moves by lr, in the direction of a moving average
/// that weighs the new gradient more than the stored one does; decay is decoupled from the gradient.
///
/// Shapes   grad, master, exp_avg: [numel], the same global range, numel >= 0. No two overlap.
/// Units    grad: unscaled and clipped; only its sign and its size next to exp_avg count. lr: parameter units.
/// Order    one fp32 rounding per operation, for every element (R6); g is grad, or with maximize grad with its
///          sign bit flipped:
///            a1 = beta1 * exp_avg;  a2 = one_minus_beta1 * g;  c = a1 + a2
///            e = c > 0 ? 1 : (c < 0 ? -1 : c);                 a = lr * e
///            has_decay: w = lr_weight_decay * master, u = a + w; else u = a;  master = master - u
///            b1 = beta2 * exp_avg;  b2 = one_minus_beta2 * g;  exp_avg = b1 + b2   (from the old exp_avg)
///          exp_avg starts at +0 and is not bias-corrected; is_first is not read.
/// Exact    bitwise across reference, host and device.
/// Special  The sign of a zero is that zero, of a NaN that NaN: a NaN in grad or exp_avg propagates. An infinite
///          gradient moves master by lr and stays in exp_avg.
/// Errors   invalid_argument if the numels differ.
/// Source   [Lion:alg2], [Lion:sign].
using LionUpdateFn = void(const Exec&, const LionOptions&, const StepScalars&,
                          Span<const float> grad, Span<float> master, Span<float> exp_avg);

/// Lion update of one piece of a shard whose bf16 parameter is its own master, in place (R25).
///
/// Shapes   grad, master: bf16; exp_avg: fp32. Otherwise as LionUpdateFn.
/// Units, Special, Errors as LionUpdateFn.
/// Order    as AdamwUpdateBf16Fn, with LionUpdateFn for the update in fp32.
/// Exact    bitwise across reference and host. A device has it in the update of a stored state.
/// Source   R25. Where lr and decay together are below half a unit in the last place of the
///          parameter, it stays as it is.
using LionUpdateBf16Fn = void(const Exec&, const LionOptions&, const StepScalars&,
                              Span<const bf16> grad, Span<bf16> master, Span<float> exp_avg);

}  // namespace zeroproof
