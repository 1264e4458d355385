// loss_scaler_update: the checks, an overflow, a good step.

#include <algorithm>
#include <cstdint>

#include "common/base/error.hpp"
#include "common/contracts/loss_scaler.hpp"

namespace zeroproof::mine {

LossScalerState loss_scaler_update(const LossScalerConfig& config, const LossScalerState& state,
                                   bool found_inf) {
  ZP_CHECK(config.growth_interval >= 1 && config.hysteresis >= 1 && config.log2_growth >= 1 &&
               config.log2_backoff >= 1 && config.log2_min <= config.log2_initial &&
               config.log2_initial <= config.log2_max,
           ErrorCode::invalid_argument, "invalid configuration", "the scale could not change",
           "correct its values");
  ZP_CHECK(
      state.growth_tracker >= 0 && state.growth_tracker < INT32_MAX && state.hysteresis_left >= 0,
      ErrorCode::invalid_argument, "invalid state", "counters begin at 0",
      "begin with the initial state");
  LossScalerState after = state;
  if (config.kind != LossScalerKind::dynamic) return after;
  if (found_inf) {
    after.growth_tracker = 0;
    after.hysteresis_left = std::max(state.hysteresis_left - 1, 0);
    if (after.hysteresis_left == 0) {
      after.log2_scale = std::max(state.log2_scale - config.log2_backoff, config.log2_min);
    }
    return after;
  }
  if (config.refill == HysteresisRefill::good_step) after.hysteresis_left = config.hysteresis;
  if (++after.growth_tracker == config.growth_interval) {
    after.growth_tracker = 0;
    after.hysteresis_left = config.hysteresis;
    if (state.log2_scale + config.log2_growth <= config.log2_max)
      after.log2_scale += config.log2_growth;
  }
  return after;
}

}  // namespace zeroproof::mine
