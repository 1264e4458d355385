// The life of a loss scale in C++, by every case of op/loss_scaler_update (lesson 4; rule R14).

#include "common/base/error.hpp"
#include "common/contracts/loss_scaler.hpp"

namespace zeroproof::mine {

/// The state after a step. Kinds none and constant: as it was. Dynamic, and found_inf: growth_tracker is 0, one less of
/// hysteresis_left (never below 0), and where none is left log2_scale falls by log2_backoff, not below log2_min.
/// Dynamic, and all is finite: one more in growth_tracker; with refill good_step hysteresis_left is hysteresis again;
/// at growth_interval growth_tracker is 0, hysteresis_left is hysteresis, and log2_scale rises by log2_growth unless
/// that would be above log2_max.
///
/// Errors   zeroproof::Error with ErrorCode::invalid_argument, which ZP_CHECK of common/base/error.hpp throws, for
///          every kind, if growth_interval, hysteresis, log2_growth or log2_backoff is below 1, or log2_min <=
///          log2_initial <= log2_max does not hold, or growth_tracker or hysteresis_left of the state is negative, or
///          its growth_tracker is 2^31 - 1.
LossScalerState loss_scaler_update(const LossScalerConfig& config, const LossScalerState& state,
                                   bool found_inf) {
  // TODO: what is refused; then an overflow; then a good step
  return state;
}

}  // namespace zeroproof::mine
