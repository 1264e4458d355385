#pragma once
// R5 in the arithmetic of the device: fp64, every value rounded once to fp32.

#include <cmath>

#include "common/contracts/step_scalars.hpp"
#include "cuda/device/host_device.cuh"

namespace zeroproof::cuda::device {

/// What R5 takes from a param group; the numbers of the step come besides.
struct ScalarSettings {
  double lr;
  double weight_decay;
  double eps;
  double momentum;
  double dampening;
  float beta1;
  float beta2;
  std::uint32_t bias_correction;  ///< 1: on
  std::uint32_t decoupled_decay;  ///< 1: the decay coefficient is lr * weight_decay, else weight_decay
};

inline ScalarSettings scalar_settings(const OptimizerHyper& hyper) {
  return {hyper.lr,
          hyper.weight_decay,
          hyper.eps,
          hyper.momentum,
          hyper.dampening,
          hyper.beta1,
          hyper.beta2,
          hyper.bias_correction ? 1U : 0U,
          traits_of(hyper.rule).decay == DecayKind::decoupled ? 1U : 0U};
}

/// 2^k, for -1022 <= k <= 1023.
ZP_HOST_DEVICE inline double power_of_two(int k) {
  return double_of(static_cast<std::uint64_t>(k + 1023) << 52);
}

/// b^t by squaring, digits of t from the right.
ZP_HOST_DEVICE inline double power_by_squaring(double b, std::int64_t t) {
  double r = 1.0;
  while (true) {
    if (t % 2 != 0) r = r * b;
    t = t / 2;
    if (t == 0) return r;
    b = b * b;
  }
}

/// The ranges of R5 that change from step to step. The settings' own are looked at when they are set.
ZP_HOST_DEVICE inline bool step_in_range(std::int64_t t, int log2_loss_scale, std::int64_t divisor) {
  if (t < 1 || divisor < 1 || divisor >= (std::int64_t{1} << 53)) return false;
  if (log2_loss_scale < -1022 || log2_loss_scale > 1023) return false;  // nor with any divisor
  const double scaled = static_cast<double>(divisor) * power_of_two(log2_loss_scale);
  return scaled >= power_of_two(-126) && scaled <= power_of_two(126);
}

/// inv_scale of R5, for a step in range.
ZP_HOST_DEVICE inline float inv_scale_of(int log2_loss_scale, std::int64_t divisor) {
  const double scaled = static_cast<double>(divisor) * power_of_two(log2_loss_scale);
  return static_cast<float>(1.0 / scaled);
}

/// All of R5, for a step in range.
ZP_HOST_DEVICE inline StepScalars step_scalars_of(const ScalarSettings& settings, std::int64_t t,
                                                  int log2_loss_scale, std::int64_t divisor) {
  const double beta1 = settings.beta1;
  const double beta2 = settings.beta2;
  StepScalars scalars{};
  scalars.inv_scale = inv_scale_of(log2_loss_scale, divisor);
  scalars.beta1 = settings.beta1;
  scalars.one_minus_beta1 = static_cast<float>(1.0 - beta1);
  scalars.beta2 = settings.beta2;
  scalars.one_minus_beta2 = static_cast<float>(1.0 - beta2);
  double root = 1.0;
  double step_size = settings.lr;
  if (settings.bias_correction != 0U) {
    root = sqrt(1.0 - power_by_squaring(beta2, t));
    step_size = settings.lr / (1.0 - power_by_squaring(beta1, t));
  }
  scalars.sqrt_bias_correction2 = static_cast<float>(root);
  scalars.step_size = static_cast<float>(step_size);
  scalars.eps = static_cast<float>(settings.eps);
  const double lr_weight_decay = settings.lr * settings.weight_decay;
  scalars.lr_weight_decay = static_cast<float>(lr_weight_decay);
  scalars.weight_decay = static_cast<float>(settings.weight_decay);
  scalars.lr = static_cast<float>(settings.lr);
  scalars.momentum = static_cast<float>(settings.momentum);
  scalars.one_minus_dampening = static_cast<float>(1.0 - settings.dampening);
  const double decay = settings.decoupled_decay != 0U ? lr_weight_decay : settings.weight_decay;
  scalars.has_decay = decay != 0.0 ? 1U : 0U;
  scalars.is_first = t == 1 ? 1U : 0U;
  return scalars;
}

}  // namespace zeroproof::cuda::device
