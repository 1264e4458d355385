#include "cuda/host/loss_scaler.hpp"

#include <string>

#include "common/base/error.hpp"

namespace zeroproof::cuda::host {
namespace {

void check(const LossScalerConfig& config) {
  const auto at_least_one = [](int value, const char* name) {
    ZP_CHECK(value >= 1, ErrorCode::invalid_argument,
             std::string("loss scaler: ") + name + " is " + std::to_string(value),
             "the scale would never move, or move the wrong way", "use 1 or more");
  };
  at_least_one(config.growth_interval, "growth_interval");
  at_least_one(config.hysteresis, "hysteresis");
  at_least_one(config.log2_growth, "log2_growth");
  at_least_one(config.log2_backoff, "log2_backoff");
  ZP_CHECK(config.log2_min <= config.log2_initial && config.log2_initial <= config.log2_max,
           ErrorCode::invalid_argument,
           "loss scaler: the initial scale 2^" + std::to_string(config.log2_initial) + " lies outside [2^" +
               std::to_string(config.log2_min) + ", 2^" + std::to_string(config.log2_max) + "]",
           "the automaton never leaves that range", "move the limits or the initial scale");
}

}  // namespace

LossScalerState loss_scaler_init(const LossScalerConfig& config) {
  check(config);
  const bool scales = config.kind != LossScalerKind::none;
  return {scales ? config.log2_initial : 0, 0, config.hysteresis};
}

LossScalerState loss_scaler_update(const LossScalerConfig& config, const LossScalerState& state,
                                   bool found_inf) {
  check(config);
  ZP_CHECK(state.growth_tracker >= 0 && state.growth_tracker != INT32_MAX && state.hysteresis_left >= 0,
           ErrorCode::invalid_argument,
           "loss scaler: a state with tracker " + std::to_string(state.growth_tracker) + " and hysteresis " +
               std::to_string(state.hysteresis_left),
           "a count below 0 or at the end of 32 bits cannot go on", "load the state of an earlier step");
  if (config.kind != LossScalerKind::dynamic) return state;
  LossScalerState next = state;
  if (found_inf) {
    next.growth_tracker = 0;
    if (next.hysteresis_left > 0) --next.hysteresis_left;
    if (next.hysteresis_left == 0) {
      const bool room = std::int64_t{state.log2_scale} - config.log2_min >= config.log2_backoff;
      next.log2_scale = room ? state.log2_scale - config.log2_backoff : config.log2_min;
    }
    return next;
  }
  ++next.growth_tracker;
  if (config.refill == HysteresisRefill::good_step) next.hysteresis_left = config.hysteresis;
  if (next.growth_tracker != config.growth_interval) return next;
  next.growth_tracker = 0;
  next.hysteresis_left = config.hysteresis;
  // Distances in 64 bits: the contract sets no bounds on exponents, and a sum that wraps would pass any test.
  if (std::int64_t{config.log2_max} - state.log2_scale >= config.log2_growth)
    next.log2_scale += config.log2_growth;
  return next;
}

}  // namespace zeroproof::cuda::host
