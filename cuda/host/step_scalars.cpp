#include "cuda/host/step_scalars.hpp"

#include <cmath>
#include <cstdio>
#include <string>

#include "common/base/error.hpp"

namespace zeroproof::cuda::host {
namespace {

std::string text(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof(buffer), "%.9g", value);
  return buffer;
}

void require(bool ok, const std::string& problem, const char* why, const char* remedy) {
  ZP_CHECK(ok, ErrorCode::invalid_argument, problem, why, remedy);
}

/// Positive and finite, also after rounding to fp32.
bool is_limit(double value) {
  const float limit = static_cast<float>(value);
  return std::isfinite(value) && std::isfinite(limit) && limit > 0;
}

void check_ranges(const OptimizerHyper& hyper, std::int64_t t, int log2_loss_scale, std::int64_t divisor) {
  require(t >= 1, "step number t is " + std::to_string(t), "the bias correction divides by 1 - beta^t",
          "count applied steps from 1");
  require(divisor >= 1 && divisor < std::int64_t{1} << 53, "divisor is " + std::to_string(divisor),
          "the mean divides by it and fp64 must hold it", "use a value from 1 to 2^53 - 1");
  require(log2_loss_scale >= -1000 && log2_loss_scale <= 1000,
          "loss scale is 2^" + std::to_string(log2_loss_scale), "fp64 must hold it",
          "lower the initial or maximal loss scale");
  const double scaled = std::ldexp(static_cast<double>(divisor), log2_loss_scale);
  require(scaled >= 0x1p-126 && scaled <= 0x1p126, "loss scale * divisor is " + text(scaled),
          "its reciprocal must be a normal fp32 number", "keep it between 2^-126 and 2^126");
  require(std::isfinite(hyper.eps) && static_cast<float>(hyper.eps) >= 0x1p-126F, "eps is " + text(hyper.eps),
          "the update divides by sqrt(v) + eps and v can be zero",
          "use a normal positive fp32 number such as 1e-8");
  const double rest1 = 1.0 - static_cast<double>(hyper.beta1);
  const double rest2 = 1.0 - static_cast<double>(hyper.beta2);
  require(rest1 >= 0x1p-23 && rest1 <= 1.0, "beta1 is " + text(hyper.beta1),
          "1 - beta1 is the weight of the new gradient", "use a value in [0, 1) with 1 - beta1 >= 2^-23");
  require(rest2 >= 0x1p-23 && rest2 <= 0.5, "beta2 is " + text(hyper.beta2),
          "1 - beta2 is the weight of the new squared gradient",
          "use a value in [0.5, 1) with 1 - beta2 >= 2^-23");
  require(std::isfinite(hyper.lr) && hyper.lr >= 0, "lr is " + text(hyper.lr), "it scales every update",
          "use a finite number of 0 or more");
  require(std::isfinite(hyper.weight_decay) && hyper.weight_decay >= 0,
          "weight_decay is " + text(hyper.weight_decay), "it pulls every parameter towards zero",
          "use a finite number of 0 or more");
  const auto is_fraction = [](double value) { return value >= 0 && value <= 1; };
  require(is_fraction(hyper.momentum), "momentum is " + text(hyper.momentum),
          "it is the part of the buffer that is kept", "use a value from 0 to 1");
  require(is_fraction(hyper.dampening), "dampening is " + text(hyper.dampening),
          "1 - dampening is the weight of the new gradient", "use a value from 0 to 1");
  require(!hyper.max_norm || (std::isfinite(*hyper.max_norm) && *hyper.max_norm >= 0),
          "max_norm is " + text(hyper.max_norm.value_or(0)),
          "a negative limit would turn every gradient around", "use a positive number, or 0 for no clipping");
  require(!hyper.clip_value || is_limit(*hyper.clip_value),
          "clip_value is " + text(hyper.clip_value.value_or(0)),
          "every element is to lie between -clip_value and clip_value in fp32",
          "use a positive number that fp32 holds, or leave clipping by value out");
}

/// Options that would silently do nothing, or something else than their name says.
void check_options(const OptimizerHyper& hyper) {
  const RuleTraits& rule = traits_of(hyper.rule);
  const bool is_sgd = rule.momentum_buffer;
  require(is_sgd || (hyper.momentum == 0 && hyper.dampening == 0),
          "momentum is " + text(hyper.momentum) + " and dampening " + text(hyper.dampening) +
              " without the rule sgd",
          "no other rule has a momentum buffer", "use the rule sgd, or set both to 0");
  require(!hyper.nesterov || (is_sgd && hyper.momentum > 0 && hyper.dampening == 0),
          "nesterov is on without the rule sgd, a momentum above 0 and a dampening of 0",
          "it looks ahead along an undamped momentum buffer", "change these settings or turn nesterov off");
  require(!hyper.amsgrad || rule.exp_avg_sq, "amsgrad is on for a rule without a second moment",
          "it keeps the largest second moment", "use the rule adamw or adam, or turn amsgrad off");
}

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

/// The coefficient by which the rule pulls parameters towards zero.
double decay_coefficient(const OptimizerHyper& hyper) {
  switch (traits_of(hyper.rule).decay) {
    case DecayKind::decoupled:
      return hyper.lr * hyper.weight_decay;
    case DecayKind::coupled:
      break;
  }
  return hyper.weight_decay;
}

}  // namespace

StepScalars step_scalars(const OptimizerHyper& hyper, std::int64_t t, int log2_loss_scale,
                         std::int64_t divisor) {
  check_ranges(hyper, t, log2_loss_scale, divisor);
  check_options(hyper);
  const double beta1 = hyper.beta1;
  const double beta2 = hyper.beta2;
  StepScalars scalars{};
  scalars.inv_scale = static_cast<float>(1.0 / std::ldexp(static_cast<double>(divisor), log2_loss_scale));
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
  scalars.one_minus_dampening = static_cast<float>(1.0 - hyper.dampening);
  scalars.has_decay = decay_coefficient(hyper) != 0.0 ? 1 : 0;
  scalars.is_first = t == 1 ? 1 : 0;
  return scalars;
}

}  // namespace zeroproof::cuda::host
