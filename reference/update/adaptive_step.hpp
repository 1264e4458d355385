#pragma once
// The steps of adamw, adam and lamb, one line per rounding (R6). The names are those of the
// contract.

#include "common/contracts/adam.hpp"
#include "common/contracts/step_scalars.hpp"
#include "reference/blocks.hpp"
#include "reference/update/descent.hpp"

namespace zeroproof::reference {

/// The views of up to 1024 elements. max_exp_avg_sq is empty without amsgrad.
struct AdamBlock {
  ConstArray grad;
  MutableArray master, exp_avg, exp_avg_sq, max_exp_avg_sq;
};

/// Moments, denominator and the step `a` [Adam:alg1]. master keeps its values.
inline Block adaptive_step(const AdamOptions& options, const StepScalars& s, const Block& g,
                           AdamBlock x) {
  // First moment: running mean of the gradient.
  const Block a1 = s.beta1 * x.exp_avg;
  const Block a2 = s.one_minus_beta1 * g;
  x.exp_avg = a1 + a2;

  // Second moment: running mean of its square.
  const Block h = g * g;
  const Block b1 = s.beta2 * x.exp_avg_sq;
  const Block b2 = s.one_minus_beta2 * h;
  x.exp_avg_sq = b1 + b2;

  // The denominator. eps is outside the root, so it bounds the step even where the gradient was
  // always 0.
  Block moment = x.exp_avg_sq;
  if (options.amsgrad) {
    // [Adam:amsgrad]. An explicit comparison, which is false for a NaN on either side; a library
    // maximum might not be (R4).
    x.max_exp_avg_sq = (x.max_exp_avg_sq >= moment).select(x.max_exp_avg_sq, moment);
    moment = x.max_exp_avg_sq;
  }
  const Block root = moment.sqrt();
  const Block r = root / s.sqrt_bias_correction2;
  const Block d = r + s.eps;

  const Block q = x.exp_avg / d;
  return s.step_size * q;
}

/// `u` of adamw and lamb. master keeps its values.
inline Block decoupled_step(const AdamOptions& options, const StepScalars& s, AdamBlock x) {
  const Block g = apply_direction(options.maximize, x.grad);
  const Block a = adaptive_step(options, s, g, x);
  if (s.has_decay == 0) return a;  // the decay is not evaluated, instead of adding 0 (R6)
  // Decoupled decay [AdamW:alg2], as a term and not as a factor of master [AdamW:additive]: both
  // parts are added first, so that master is rounded once [AdamW:once].
  const Block w = s.lr_weight_decay * x.master;
  return a + w;
}

}  // namespace zeroproof::reference
