#pragma once

#include "common/base/exec.hpp"
#include "common/base/span.hpp"
#include "common/contracts/step_scalars.hpp"

namespace zeroproof {

struct SgdOptions {
  bool momentum = false;  ///< there is a momentum buffer (the coefficient in fp64 is not 0)
  bool nesterov = false;  ///< needs momentum
  bool maximize = false;  ///< ascend: the sign of grad is flipped first
};

/// SGD update of one piece of a shard, in place, with decay added to the gradient (L2).
///
/// Shapes   grad, master: [numel], the same global range, numel >= 0. momentum_buffer: [numel] with momentum,
///          otherwise empty. No two overlap.
/// Units    grad: unscaled and clipped. lr: parameter units per gradient unit.
/// Order    one fp32 rounding per operation, for every element (R6); g is grad, or with maximize grad with its
///          sign bit flipped:
///            has_decay: w = weight_decay * master; g = g + w
///            momentum:  is_first: momentum_buffer = g   (its old value is not read, dampening does not apply)
///                       else: x = momentum * momentum_buffer; y = one_minus_dampening * g;
///                             momentum_buffer = x + y
///                       nesterov: h = momentum * momentum_buffer; e = g + h; else e = momentum_buffer
///            no momentum: e = g
///            s = lr * e;  master = master - s
/// Exact    bitwise across reference, host and device.
/// Special  NaN and infinities in grad propagate.
/// Errors   invalid_argument if the numels differ, or nesterov without momentum.
/// Source   [SGD:update], [SGD:nesterov].
using SgdUpdateFn = void(const Exec&, const SgdOptions&, const StepScalars&, Span<const float> grad,
                         Span<float> master, Span<float> momentum_buffer);

/// SGD update of one piece of a shard whose bf16 parameter is its own master, in place (R25).
///
/// Shapes   grad, master: bf16; momentum_buffer: fp32. Otherwise as SgdUpdateFn.
/// Units, Special, Errors as SgdUpdateFn.
/// Order    as AdamwUpdateBf16Fn, with SgdUpdateFn for the update in fp32: neither the gradient with
///          its decay nor the momentum buffer is rounded to bf16.
/// Exact    bitwise across reference and host. A device has it in the update of a stored state.
/// Source   R25.
using SgdUpdateBf16Fn = void(const Exec&, const SgdOptions&, const StepScalars&,
                             Span<const bf16> grad, Span<bf16> master, Span<float> momentum_buffer);

struct SgdEmaOptions {
  bool maximize = false;  ///< ascend: the sign of grad is flipped first
};

/// SGD that moves by the exponential moving average of the gradient: a rule other than momentum,
/// with its own name.
///
/// Shapes   grad, master, exp_avg: [numel], the same global range, numel >= 0. No two overlap.
/// Order    g as in SgdUpdateFn, decay included; then
///            a1 = beta1 * exp_avg;  a2 = one_minus_beta1 * g;  exp_avg = a1 + a2
///            s = lr * exp_avg;      master = master - s
///          exp_avg starts at +0 and is not bias-corrected; is_first is not read.
/// Exact    bitwise across reference, host and device.
/// Errors   invalid_argument if the numels differ.
/// Source   [SGD:ema].
using SgdEmaUpdateFn = void(const Exec&, const SgdEmaOptions&, const StepScalars&,
                            Span<const float> grad, Span<float> master, Span<float> exp_avg);

}  // namespace zeroproof
