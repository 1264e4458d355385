#pragma once
// Scalars and buffers of the tests of adamw and adam.

#include "reference/update_operations.hpp"
#include "tests/reference/support.hpp"

namespace zeroproof::tests {

/// beta1 = 1/2, beta2 = 3/4, eps = 1, and a decay of 1/8: every number below is a sum of few powers
/// of two.
inline StepScalars dyadic_scalars(float step_size) {
  StepScalars s{};
  s.beta1 = s.one_minus_beta1 = 0.5F;
  s.beta2 = 0.75F;
  s.one_minus_beta2 = 0.25F;
  s.sqrt_bias_correction2 = 0.5F;
  s.step_size = step_size;
  s.eps = 1.0F;
  s.lr_weight_decay = 0.125F;
  s.weight_decay = 0.5F;
  s.has_decay = 1;
  return s;
}

struct AdamState {
  std::vector<float> grad, master, exp_avg, exp_avg_sq, max_exp_avg_sq;

  void update(const StepScalars& scalars, const AdamOptions& options = {}) {
    reference::adamw_update({}, options, scalars, grad, master, exp_avg, exp_avg_sq,
                            max_exp_avg_sq);
  }
  void update_l2(const StepScalars& scalars, const AdamOptions& options = {}) {
    reference::adam_update({}, options, scalars, grad, master, exp_avg, exp_avg_sq, max_exp_avg_sq);
  }
};

}  // namespace zeroproof::tests
