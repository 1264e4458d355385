#include "verification/ops/scalar_sets.hpp"

namespace zeroproof::verification {
namespace {

StepScalars typical() {
  StepScalars s{};
  s.inv_scale = 1.0F;
  s.beta1 = 0.9F;
  s.one_minus_beta1 = 1.0F - 0.9F;
  s.beta2 = 0.999F;
  s.one_minus_beta2 = 1.0F - 0.999F;
  s.sqrt_bias_correction2 = 0.0547F;
  s.step_size = 3.69e-3F;
  s.eps = 1e-8F;
  s.lr_weight_decay = 1e-5F;
  s.weight_decay = 0.01F;
  s.lr = 1e-3F;
  s.momentum = 0.9F;
  s.one_minus_dampening = 1.0F;
  s.has_decay = 1;
  return s;
}

/// Factors of exactly 0 and 1 are still multiplied with, and there is no decay (R6).
StepScalars first_step() {
  StepScalars s = typical();
  s.beta1 = 0.0F;
  s.one_minus_beta1 = 1.0F;
  s.sqrt_bias_correction2 = 1.0F;
  s.step_size = 0.0F;
  s.lr_weight_decay = 0.0F;
  s.weight_decay = 0.0F;
  s.lr = 0.0F;
  s.has_decay = 0;
  s.is_first = 1;
  return s;
}

/// Large steps, a large eps and strong decay: every line of the formula shows in the last bits of the result.
StepScalars strong() {
  StepScalars s = typical();
  s.beta1 = 0.5F;
  s.one_minus_beta1 = 0.5F;
  s.beta2 = 0.5F;
  s.one_minus_beta2 = 0.5F;
  s.sqrt_bias_correction2 = 0.70710677F;
  s.step_size = 1.75F;
  s.eps = 0.1F;
  s.lr_weight_decay = 0.3F;
  s.weight_decay = 0.7F;
  s.lr = 1.5F;
  s.momentum = 0.37F;
  s.one_minus_dampening = 0.61F;
  return s;
}

}  // namespace

StepScalars scalar_set(int number) { return number == 0 ? typical() : number == 1 ? first_step() : strong(); }

std::vector<std::string> scalar_set_names() { return {"typical", "no decay, factors 0 and 1", "strong"}; }

}  // namespace zeroproof::verification
