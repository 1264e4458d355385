#pragma once
// Wrong AdamW updates, modelled on bugs of public optimizers. Only compiled where faults are planted.

#include <cmath>

#include "cuda/faults/fault.hpp"
#include "cuda/host/adam.hpp"

#if defined(ZP_WITH_FAULTS)
namespace zeroproof::cuda::host {

/// Runs the planted update if one of this file's faults is active; returns whether it did.
inline bool faulty_adamw(const Exec& exec, const StepScalars& c, Span<const float> grad, Span<float> master,
                         Span<float> exp_avg, Span<float> exp_avg_sq) {
  const bool nothing = ZP_FAULT(exec, "do-nothing");
  const bool eps_inside = ZP_FAULT(exec, "Z03-eps-under-bias-correction");
  const bool decay_after = ZP_FAULT(exec, "Z01-decay-after-update");
  if (nothing) return true;
  if (!eps_inside && !decay_after) return false;
  for (std::size_t i = 0; i < grad.size(); ++i) {
    exp_avg[i] = c.beta1 * exp_avg[i] + c.one_minus_beta1 * grad[i];
    exp_avg_sq[i] = c.beta2 * exp_avg_sq[i] + c.one_minus_beta2 * (grad[i] * grad[i]);
    const float root = std::sqrt(exp_avg_sq[i]);
    const float denominator =
        eps_inside ? (root + c.eps) / c.sqrt_bias_correction2 : root / c.sqrt_bias_correction2 + c.eps;
    const float update = c.step_size * (exp_avg[i] / denominator);
    if (decay_after) {
      const float moved = master[i] - update;
      master[i] = moved - c.lr_weight_decay * moved;
    } else {
      master[i] = master[i] - (c.has_decay != 0 ? update + c.lr_weight_decay * master[i] : update);
    }
  }
  return true;
}

}  // namespace zeroproof::cuda::host
#endif
