#pragma once
// LAMB without its ratio by the text of the contract (R6), one element after another.

#include <cmath>

#include "common/contracts/lamb.hpp"

namespace zeroproof::tests {

struct SimpleLamb {
  float exp_avg, exp_avg_sq, u;
};

inline SimpleLamb simple_lamb(const StepScalars& c, bool maximize, float grad, float master,
                              float exp_avg, float exp_avg_sq) {
  const float g = maximize ? -grad : grad;
  const float a1 = c.beta1 * exp_avg;
  const float a2 = c.one_minus_beta1 * g;
  const float m = a1 + a2;
  const float h = g * g;
  const float b1 = c.beta2 * exp_avg_sq;
  const float b2 = c.one_minus_beta2 * h;
  const float v = b1 + b2;
  const float s = std::sqrt(v);
  const float r = s / c.sqrt_bias_correction2;
  const float d = r + c.eps;
  const float q = m / d;
  const float a = c.step_size * q;
  if (c.has_decay == 0) return {m, v, a};
  const float w = c.lr_weight_decay * master;
  return {m, v, a + w};
}

}  // namespace zeroproof::tests
