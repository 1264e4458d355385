#include <algorithm>
#include <limits>
#include <string>

#include "common/base/error.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {
namespace {

void check_at_least_one(const char* what, int value) {
  ZP_CHECK(value >= 1, ErrorCode::invalid_argument,
           std::string(what) + " is " + std::to_string(value), "the loss scale could not change",
           "use 1 or more");
}

void check(const LossScalerConfig& config) {
  check_at_least_one("growth_interval", config.growth_interval);
  check_at_least_one("hysteresis", config.hysteresis);
  check_at_least_one("log2_growth", config.log2_growth);
  check_at_least_one("log2_backoff", config.log2_backoff);
  ZP_CHECK(config.log2_min <= config.log2_initial && config.log2_initial <= config.log2_max,
           ErrorCode::invalid_argument,
           "log2_initial is " + std::to_string(config.log2_initial) + ", outside " +
               std::to_string(config.log2_min) + ".." + std::to_string(config.log2_max),
           "the initial loss scale must be in this range",
           "choose log2_min <= log2_initial <= log2_max");
}

LossScalerState after_overflow(const LossScalerConfig& config, LossScalerState state) {
  state.growth_tracker = 0;
  state.hysteresis_left = std::max(state.hysteresis_left - 1, 0);
  if (state.hysteresis_left == 0) {
    const std::int64_t lowered = std::int64_t{state.log2_scale} - config.log2_backoff;
    state.log2_scale = static_cast<std::int32_t>(std::max<std::int64_t>(lowered, config.log2_min));
  }
  return state;
}

LossScalerState after_good_step(const LossScalerConfig& config, LossScalerState state) {
  state.growth_tracker += 1;
  if (config.refill == HysteresisRefill::good_step) state.hysteresis_left = config.hysteresis;
  if (state.growth_tracker == config.growth_interval) {
    state.growth_tracker = 0;
    state.hysteresis_left = config.hysteresis;
    const std::int64_t raised = std::int64_t{state.log2_scale} + config.log2_growth;
    if (raised <= config.log2_max) state.log2_scale = static_cast<std::int32_t>(raised);
  }
  return state;
}

}  // namespace

LossScalerState loss_scaler_init(const LossScalerConfig& config) {
  check(config);
  LossScalerState state;
  state.log2_scale = config.kind == LossScalerKind::none ? 0 : config.log2_initial;
  state.growth_tracker = 0;
  state.hysteresis_left = config.hysteresis;
  return state;
}

LossScalerState loss_scaler_update(const LossScalerConfig& config, const LossScalerState& state,
                                   bool found_inf) {
  check(config);
  const bool counts =
      state.growth_tracker >= 0 && state.growth_tracker < std::numeric_limits<std::int32_t>::max();
  ZP_CHECK(counts && state.hysteresis_left >= 0, ErrorCode::invalid_argument,
           "the loss scaler's state has growth_tracker " + std::to_string(state.growth_tracker) +
               " and hysteresis_left " + std::to_string(state.hysteresis_left),
           "both are counts of steps", "load counts of 0 or more, and a tracker below 2^31 - 1");
  if (config.kind != LossScalerKind::dynamic) return state;
  return found_inf ? after_overflow(config, state) : after_good_step(config, state);
}

}  // namespace zeroproof::reference
