#pragma once
// R14: the loss scaler, integers only.

#include "common/contracts/loss_scaler.hpp"
#include "cuda/device/kernels/base/host_device.cuh"

namespace zeroproof::cuda::device {

/// The state after a step. config and state are valid.
ZP_HOST_DEVICE inline LossScalerState loss_scaler_after(const LossScalerConfig& config,
                                                        LossScalerState state, bool found_inf) {
  if (config.kind != LossScalerKind::dynamic) return state;
  if (found_inf) {
    state.growth_tracker = 0;
    if (state.hysteresis_left > 0) state.hysteresis_left -= 1;
    if (state.hysteresis_left == 0) {
      // In 64 bits: with distant limits, the 32-bit difference could overflow.
      const std::int64_t lower = std::int64_t{state.log2_scale} - config.log2_backoff;
      state.log2_scale =
          lower > config.log2_min ? static_cast<std::int32_t>(lower) : config.log2_min;
    }
    return state;
  }
  state.growth_tracker += 1;
  if (config.refill == HysteresisRefill::good_step) state.hysteresis_left = config.hysteresis;
  if (state.growth_tracker == config.growth_interval) {
    state.growth_tracker = 0;
    state.hysteresis_left = config.hysteresis;
    const std::int64_t higher = std::int64_t{state.log2_scale} + config.log2_growth;
    if (higher <= config.log2_max) state.log2_scale = static_cast<std::int32_t>(higher);
  }
  return state;
}

}  // namespace zeroproof::cuda::device
