#pragma once
// The gradient that the update rules read (R6): negated to maximize, and with the decay added.

#include "common/contracts/step_scalars.hpp"
#include "reference/blocks.hpp"

namespace zeroproof::reference {

/// The gradient, or with maximize the gradient with its sign bit flipped: -0 for +0, unlike 0 - x.
inline Block apply_direction(bool maximize, const ConstArray& grad) {
  if (maximize) return -grad;
  return grad;
}

/// As above, with the decay of adam, sgd and sgd_ema [Adam:l2]: the gradient of the penalty
/// weight_decay / 2 * master^2.
inline Block directed_with_decay(bool maximize, const StepScalars& s, const ConstArray& grad,
                                 const MutableArray& master) {
  const Block g = apply_direction(maximize, grad);
  // Not evaluated, instead of adding 0: an infinite master times 0 would be NaN (R6).
  if (s.has_decay == 0) return g;
  const Block w = s.weight_decay * master;
  return g + w;
}

}  // namespace zeroproof::reference
