#pragma once
// Range checks of loss scaler settings and loaded states (R14).

#include <cstdint>
#include <string>

#include "common/base/error.hpp"
#include "common/contracts/loss_scaler.hpp"

namespace zeroproof::cuda::host {

/// Errors: invalid_argument.
inline void check_loss_scaler(const LossScalerConfig& config) {
  const auto at_least_one = [](int value, const char* name) {
    ZP_CHECK(value >= 1, ErrorCode::invalid_argument,
             std::string("loss scaler: ") + name + " is " + std::to_string(value),
             "the scale would never change, or change in the wrong direction", "use 1 or more");
  };
  at_least_one(config.growth_interval, "growth_interval");
  at_least_one(config.hysteresis, "hysteresis");
  at_least_one(config.log2_growth, "log2_growth");
  at_least_one(config.log2_backoff, "log2_backoff");
  ZP_CHECK(config.log2_min <= config.log2_initial && config.log2_initial <= config.log2_max,
           ErrorCode::invalid_argument,
           "loss scaler: the initial scale 2^" + std::to_string(config.log2_initial) +
               " is outside [2^" + std::to_string(config.log2_min) + ", 2^" +
               std::to_string(config.log2_max) + "]",
           "the scale never leaves that range", "change the limits or the initial scale");
}

/// Errors: invalid_argument.
inline void check_loss_scaler(const LossScalerConfig& config, const LossScalerState& state) {
  check_loss_scaler(config);
  ZP_CHECK(
      state.growth_tracker >= 0 && state.growth_tracker != INT32_MAX && state.hysteresis_left >= 0,
      ErrorCode::invalid_argument,
      "loss scaler: a state with tracker " + std::to_string(state.growth_tracker) +
          " and hysteresis " + std::to_string(state.hysteresis_left),
      "counts must be at least 0 and below the 32-bit maximum",
      "load the state of an earlier step");
}

}  // namespace zeroproof::cuda::host
