#include "cuda/host/operations.hpp"
#include "cuda/host/update/loss_scaler_checks.hpp"

namespace zeroproof::cuda::host {

LossScalerState loss_scaler_init(const LossScalerConfig& config) {
  check_loss_scaler(config);
  const bool scales = config.kind != LossScalerKind::none;
  return {scales ? config.log2_initial : 0, 0, config.hysteresis};
}

LossScalerState loss_scaler_update(const LossScalerConfig& config, const LossScalerState& state,
                                   bool found_inf) {
  check_loss_scaler(config, state);
  if (config.kind != LossScalerKind::dynamic) return state;
  LossScalerState next = state;
  if (found_inf) {
    next.growth_tracker = 0;
    if (next.hysteresis_left > 0) --next.hysteresis_left;
    if (next.hysteresis_left == 0) {
      const bool in_range = std::int64_t{state.log2_scale} - config.log2_min >= config.log2_backoff;
      next.log2_scale = in_range ? state.log2_scale - config.log2_backoff : config.log2_min;
    }
    return next;
  }
  ++next.growth_tracker;
  if (config.refill == HysteresisRefill::good_step) next.hysteresis_left = config.hysteresis;
  if (next.growth_tracker != config.growth_interval) return next;
  next.growth_tracker = 0;
  next.hysteresis_left = config.hysteresis;
  // Distances in 64 bits: the contract does not bound the exponents, and a sum that wraps around
  // would pass every comparison.
  if (std::int64_t{config.log2_max} - state.log2_scale >= config.log2_growth)
    next.log2_scale += config.log2_growth;
  return next;
}

}  // namespace zeroproof::cuda::host
