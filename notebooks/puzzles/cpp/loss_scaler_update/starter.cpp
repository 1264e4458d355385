// The update of a loss scale in C++, for every case of op/loss_scaler_update (lesson 4; rule R14).

#include "common/base/error.hpp"
#include "common/contracts/loss_scaler.hpp"

namespace zeroproof::mine {

/// The state after a step. Kinds none and constant: unchanged. Dynamic with found_inf:
/// growth_tracker becomes 0, hysteresis_left decreases by 1 (not below 0), and if it is 0, log2_scale
/// decreases by log2_backoff, not below log2_min. Dynamic without: growth_tracker increases by 1; with
/// refill good_step hysteresis_left becomes hysteresis; at growth_interval growth_tracker becomes 0,
/// hysteresis_left becomes hysteresis, and log2_scale increases by log2_growth unless the result would
/// exceed log2_max.
///
/// Errors   ErrorCode::invalid_argument (use ZP_CHECK of common/base/error.hpp), for every kind, if
///          growth_interval, hysteresis, log2_growth or log2_backoff is below 1, or log2_min <=
///          log2_initial <= log2_max does not hold, or growth_tracker or hysteresis_left of the
///          state is negative, or its growth_tracker is 2^31 - 1.
LossScalerState loss_scaler_update(const LossScalerConfig& config, const LossScalerState& state,
                                   bool found_inf) {
  // TODO: the checks; then an overflow; then a good step
  return state;
}

}  // namespace zeroproof::mine
