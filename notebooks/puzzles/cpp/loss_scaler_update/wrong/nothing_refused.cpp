// caught: first at  after[0] | got 0xfffffffe (4294967294)  want 0xffffffff (4294967295)

#include <algorithm>
#include <cstdint>

#include "common/contracts/loss_scaler.hpp"

namespace zeroproof::mine {

LossScalerState loss_scaler_update(const LossScalerConfig& config, const LossScalerState& state,
                                   bool found_inf) {
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
    if (state.log2_scale + config.log2_growth <= config.log2_max) after.log2_scale += config.log2_growth;
  }
  return after;
}

}  // namespace zeroproof::mine
