#pragma once
// The step scalars of R5 in a form that kernels can compute: with tensors that count their own
// steps, the host does not have every t. Plain fp64 operators only; the compiler flags (R2) prevent
// contraction.

#include <cmath>
#include <cstdint>

#include "common/contracts/step_scalars.hpp"
#include "cuda/device/kernels/base/host_device.cuh"
#include "cuda/device/kernels/base/power_of_two.cuh"

namespace zeroproof::cuda::device {

/// The settings of a param group that R5 uses, without host types that device code cannot use.
struct ScalarSettings {
  double lr;
  double weight_decay;
  double eps;
  double momentum;
  double dampening;
  float beta1;
  float beta2;
  std::uint32_t bias_correction;  ///< 1: on
  std::uint32_t
      decoupled_decay;  ///< 1: the decay coefficient of the rule is lr * weight_decay, else weight_decay
};

/// Host only: the table of rules can throw, so the facts that R5 needs from it are read before a
/// kernel starts.
inline ScalarSettings scalar_settings(const OptimizerHyper& hyper) {
  ScalarSettings settings{};
  settings.lr = hyper.lr;
  settings.weight_decay = hyper.weight_decay;
  settings.eps = hyper.eps;
  settings.momentum = hyper.momentum;
  // Under muon the family defines the weight of the new gradient.
  const bool averages = traits_of(hyper.rule).matrices && hyper.muon.family == MomentumFamily::ema;
  settings.dampening = averages ? hyper.momentum : hyper.dampening;
  settings.beta1 = hyper.beta1;
  settings.beta2 = hyper.beta2;
  settings.bias_correction = hyper.bias_correction ? 1U : 0U;
  settings.decoupled_decay = traits_of(hyper.rule).decay == DecayKind::decoupled ? 1U : 0U;
  return settings;
}

/// pow(b, t) of R5 for t >= 1: the contract fixes the order of the roundings, so no library pow is
/// used.
ZP_HOST_DEVICE inline double power_by_squaring(double b, std::int64_t t) {
  double r = 1.0;
  while (true) {
    if (t % 2 != 0) r = r * b;
    t /= 2;
    if (t == 0) return r;
    b = b * b;
  }
}

/// The ranges of R5 that change from step to step: t, divisor, S * divisor. Computed in integers,
/// because S itself may not be representable: the result is correct for every int and int64
/// argument.
ZP_HOST_DEVICE inline bool step_in_range(std::int64_t t, int log2_loss_scale,
                                         std::int64_t divisor) {
  if (t < 1 || divisor < 1 || divisor >= (std::int64_t{1} << 53)) return false;
  std::int64_t log2_divisor = 0;  // rounded down
  for (std::int64_t rest = divisor; rest > 1; rest /= 2) ++log2_divisor;
  const std::int64_t exponent =
      std::int64_t{log2_loss_scale} + log2_divisor;  // 64 bits: cannot overflow
  const bool is_power_of_two = (divisor & (divisor - 1)) == 0;
  return exponent >= -126 && (exponent < 126 || (exponent == 126 && is_power_of_two));
}

/// For a step in range: S is between 2^-178 and 2^126, so S * divisor is exact and only the
/// division rounds.
ZP_HOST_DEVICE inline float inv_scale_of(int log2_loss_scale, std::int64_t divisor) {
  const double scale = power_of_two(log2_loss_scale) * static_cast<double>(divisor);
  return static_cast<float>(1.0 / scale);
}

/// All of R5 for a step and settings in range: not checked here, because a kernel could not report
/// an error.
ZP_HOST_DEVICE inline StepScalars step_scalars_of(const ScalarSettings& settings, std::int64_t t,
                                                  int log2_loss_scale, std::int64_t divisor) {
  const double beta1 = static_cast<double>(settings.beta1);
  const double beta2 = static_cast<double>(settings.beta2);

  double sqrt_bias_correction2 = 1.0;
  double step_size = settings.lr;
  if (settings.bias_correction != 0) {
    const double bias_correction1 = 1.0 - power_by_squaring(beta1, t);
    const double bias_correction2 = 1.0 - power_by_squaring(beta2, t);
    sqrt_bias_correction2 = ::sqrt(bias_correction2);
    step_size = settings.lr / bias_correction1;
  }

  // Compared in fp64: the term of a coefficient that only fp32 rounds to 0 is still evaluated.
  const double lr_weight_decay = settings.lr * settings.weight_decay;
  const double decay = settings.decoupled_decay != 0 ? lr_weight_decay : settings.weight_decay;

  StepScalars scalars;
  scalars.inv_scale = inv_scale_of(log2_loss_scale, divisor);
  scalars.beta1 = settings.beta1;
  scalars.one_minus_beta1 = static_cast<float>(1.0 - beta1);
  scalars.beta2 = settings.beta2;
  scalars.one_minus_beta2 = static_cast<float>(1.0 - beta2);
  scalars.sqrt_bias_correction2 = static_cast<float>(sqrt_bias_correction2);
  scalars.step_size = static_cast<float>(step_size);
  scalars.eps = static_cast<float>(settings.eps);
  scalars.lr_weight_decay = static_cast<float>(lr_weight_decay);
  scalars.weight_decay = static_cast<float>(settings.weight_decay);
  scalars.lr = static_cast<float>(settings.lr);
  scalars.momentum = static_cast<float>(settings.momentum);
  scalars.one_minus_dampening = static_cast<float>(1.0 - settings.dampening);
  scalars.has_decay = decay != 0.0 ? 1U : 0U;
  scalars.is_first = t == 1 ? 1U : 0U;
  return scalars;
}

}  // namespace zeroproof::cuda::device
