#pragma once
// The ranges of R5, and combinations of options; checked on the host also for the device.

#include <cmath>
#include <cstdio>
#include <string>

#include "common/base/error.hpp"
#include "common/contracts/step_scalars.hpp"

namespace zeroproof::cuda::host {
namespace setting_checks {

inline std::string text(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof(buffer), "%.9g", value);
  return buffer;
}

inline void require(bool ok, const std::string& problem, const char* why, const char* remedy) {
  ZP_CHECK(ok, ErrorCode::invalid_argument, problem, why, remedy);
}

/// Positive and finite, also after rounding to fp32.
inline bool is_limit(double value) {
  const float limit = static_cast<float>(value);
  return std::isfinite(value) && std::isfinite(limit) && limit > 0;
}

}  // namespace setting_checks

/// Checks the values that change from step to step. Errors: invalid_argument.
inline void check_step(std::int64_t t, int log2_loss_scale, std::int64_t divisor) {
  using setting_checks::require, setting_checks::text;
  require(t >= 1, "step number t is " + std::to_string(t),
          "the bias correction divides by 1 - beta^t", "count applied steps from 1");
  require(divisor >= 1 && divisor < std::int64_t{1} << 53, "divisor is " + std::to_string(divisor),
          "the mean divides by it and fp64 must represent it", "use a value from 1 to 2^53 - 1");
  require(log2_loss_scale >= -1000 && log2_loss_scale <= 1000,
          "loss scale is 2^" + std::to_string(log2_loss_scale), "fp64 must represent it",
          "lower the initial or maximal loss scale");
  const double scaled = std::ldexp(static_cast<double>(divisor), log2_loss_scale);
  require(scaled >= 0x1p-126 && scaled <= 0x1p126, "loss scale * divisor is " + text(scaled),
          "its reciprocal must be a normal fp32 number", "keep it between 2^-126 and 2^126");
}

/// Checks the ranges of settings, and rejects options without effect or in contradiction to another
/// one. Errors: invalid_argument.
inline void check_settings(const OptimizerHyper& hyper) {
  using setting_checks::is_limit, setting_checks::require, setting_checks::text;
  require(std::isfinite(hyper.eps) && static_cast<float>(hyper.eps) >= 0x1p-126F,
          "eps is " + text(hyper.eps), "the update divides by sqrt(v) + eps and v can be zero",
          "use a normal positive fp32 number such as 1e-8");
  const double rest1 = 1.0 - static_cast<double>(hyper.beta1);
  const double rest2 = 1.0 - static_cast<double>(hyper.beta2);
  require(hyper.beta1 >= 0 && rest1 >= 0x1p-23, "beta1 is " + text(hyper.beta1),
          "1 - beta1 is the weight of the new gradient",
          "use a value in [0, 1) with 1 - beta1 >= 2^-23");
  require(hyper.beta2 >= 0 && rest2 >= 0x1p-23, "beta2 is " + text(hyper.beta2),
          "1 - beta2 is the weight of the new squared gradient",
          "use a value in [0, 1) with 1 - beta2 >= 2^-23");
  require(std::isfinite(hyper.lr) && hyper.lr >= 0, "lr is " + text(hyper.lr),
          "it scales every update", "use a finite number of 0 or more");
  require(std::isfinite(hyper.weight_decay) && hyper.weight_decay >= 0,
          "weight_decay is " + text(hyper.weight_decay), "it moves every parameter towards zero",
          "use a finite number of 0 or more");
  const auto is_fraction = [](double value) { return value >= 0 && value <= 1; };
  require(is_fraction(hyper.momentum), "momentum is " + text(hyper.momentum),
          "it is the fraction of the buffer that is kept", "use a value from 0 to 1");
  require(is_fraction(hyper.dampening), "dampening is " + text(hyper.dampening),
          "1 - dampening is the weight of the new gradient", "use a value from 0 to 1");
  require(!hyper.max_norm || (std::isfinite(*hyper.max_norm) && *hyper.max_norm >= 0),
          "max_norm is " + text(hyper.max_norm.value_or(0)),
          "a negative limit would reverse every gradient",
          "use a positive number, or 0 for no clipping");
  require(!hyper.clip_value || is_limit(*hyper.clip_value),
          "clip_value is " + text(hyper.clip_value.value_or(0)),
          "every element is clipped to [-clip_value, clip_value] in fp32",
          "use a positive number representable in fp32, or do not clip by value");
  const RuleTraits& rule = traits_of(hyper.rule);
  const bool is_sgd = rule.momentum(), has_momentum = is_sgd || rule.matrices;
  require(has_momentum || hyper.momentum == 0,
          "momentum is " + text(hyper.momentum) + " for the rule " + std::string(rule.name),
          "only sgd and muon have momentum", "use one of these rules, or set it to 0");
  require(is_sgd || hyper.dampening == 0,
          "dampening is " + text(hyper.dampening) + " for the rule " + std::string(rule.name),
          "only sgd has a momentum buffer that is damped", "use the rule sgd, or set it to 0");
  require(!hyper.nesterov || (has_momentum && hyper.momentum > 0 && hyper.dampening == 0),
          "nesterov is on without the rule sgd or muon, a momentum above 0 and a dampening of 0",
          "it uses undamped momentum", "change these settings or turn nesterov off");
  require(!hyper.amsgrad || rule.amsgrad(), "amsgrad is on for the rule " + std::string(rule.name),
          "only adamw and adam keep the largest second moment",
          "use one of these rules, or turn amsgrad off");
}

}  // namespace zeroproof::cuda::host
