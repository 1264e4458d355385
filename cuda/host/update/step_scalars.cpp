#include <cmath>

#include "cuda/host/operations.hpp"
#include "cuda/host/update/setting_checks.hpp"

namespace zeroproof::cuda::host {
namespace {

/// base^exponent, bits from the right (R5).
double power(double base, std::int64_t exponent) {
  double result = 1.0;
  for (;;) {
    if ((exponent & 1) != 0) result = result * base;
    exponent >>= 1;
    if (exponent == 0) return result;
    base = base * base;
  }
}

/// The coefficient by which the rule moves parameters towards zero.
double decay_coefficient(const OptimizerHyper& hyper) {
  switch (traits_of(hyper.rule).decay) {
    case DecayKind::decoupled:
      return hyper.lr * hyper.weight_decay;
    case DecayKind::coupled:
      break;
  }
  return hyper.weight_decay;
}

/// Under muon the family defines the weight of the new gradient (R5).
double dampening_of(const OptimizerHyper& hyper) {
  const bool averages = traits_of(hyper.rule).matrices && hyper.muon.family == MomentumFamily::ema;
  return averages ? hyper.momentum : hyper.dampening;
}

}  // namespace

StepScalars step_scalars(const OptimizerHyper& hyper, std::int64_t t, int log2_loss_scale,
                         std::int64_t divisor) {
  check_step(t, log2_loss_scale, divisor);
  check_settings(hyper);
  const double beta1 = hyper.beta1;
  const double beta2 = hyper.beta2;
  StepScalars scalars{};
  scalars.inv_scale =
      static_cast<float>(1.0 / std::ldexp(static_cast<double>(divisor), log2_loss_scale));
  scalars.beta1 = hyper.beta1;
  scalars.one_minus_beta1 = static_cast<float>(1.0 - beta1);
  scalars.beta2 = hyper.beta2;
  scalars.one_minus_beta2 = static_cast<float>(1.0 - beta2);
  scalars.sqrt_bias_correction2 = 1.0F;
  scalars.step_size = static_cast<float>(hyper.lr);
  if (hyper.bias_correction) {
    scalars.sqrt_bias_correction2 = static_cast<float>(std::sqrt(1.0 - power(beta2, t)));
    scalars.step_size = static_cast<float>(hyper.lr / (1.0 - power(beta1, t)));
  }
  scalars.eps = static_cast<float>(hyper.eps);
  scalars.lr_weight_decay = static_cast<float>(hyper.lr * hyper.weight_decay);
  scalars.weight_decay = static_cast<float>(hyper.weight_decay);
  scalars.lr = static_cast<float>(hyper.lr);
  scalars.momentum = static_cast<float>(hyper.momentum);
  scalars.one_minus_dampening = static_cast<float>(1.0 - dampening_of(hyper));
  scalars.has_decay = decay_coefficient(hyper) != 0.0 ? 1 : 0;
  scalars.is_first = t == 1 ? 1 : 0;
  return scalars;
}

}  // namespace zeroproof::cuda::host
