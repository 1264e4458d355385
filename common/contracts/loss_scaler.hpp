#pragma once

#include <cstdint>

namespace zeroproof {

enum class LossScalerKind : std::uint8_t { none, constant, dynamic };

/// When the hysteresis counter is refilled: at every growth (Megatron-LM), or at every step without
/// overflow (DeepSpeed's consecutive_hysteresis).
enum class HysteresisRefill : std::uint8_t { growth, good_step };

/// Loss scales are powers of two and are kept as exponents: the machine is integer only (R14).
struct LossScalerConfig {
  LossScalerKind kind = LossScalerKind::none;
  int log2_initial = 0;
  int log2_growth = 1;   ///< >= 1
  int log2_backoff = 1;  ///< >= 1: the scale is divided by 2^log2_backoff
  int log2_min = 0;
  int log2_max = 64;
  int growth_interval = 1000;  ///< steps without overflow before a growth, >= 1
  int hysteresis = 1;          ///< overflows before a backoff, >= 1
  HysteresisRefill refill = HysteresisRefill::growth;
};

struct LossScalerState {
  std::int32_t log2_scale = 0;
  std::int32_t growth_tracker =
      0;  ///< steps without overflow since the last growth, backoff or overflow
  std::int32_t hysteresis_left = 1;  ///< overflows left before the next backoff, never below 0

  bool operator==(const LossScalerState&) const = default;
};

/// State before the first step: log2_initial (0 for kind none), tracker 0, hysteresis_left = hysteresis.
///
/// Errors   as LossScalerUpdateFn for a configuration, for every kind.
using LossScalerInitFn = LossScalerState(const LossScalerConfig&);

/// State after a step, from found_inf of that step. Runs at the end of unscale, also when the step is
/// skipped.
///
/// Order    none, constant: nothing changes.
///          dynamic, overflow: tracker = 0; hysteresis_left = max(hysteresis_left - 1, 0);
///            if it is 0: log2_scale = max(log2_scale - log2_backoff, log2_min).
///          dynamic, no overflow: tracker += 1; refill good_step: hysteresis_left = hysteresis;
///            if tracker = growth_interval: tracker = 0, hysteresis_left = hysteresis, and
///            log2_scale += log2_growth unless that would exceed log2_max.
/// Exact    integers. A tracker that was loaded above growth_interval never reaches it.
/// Errors   invalid_argument, for every kind, if growth_interval, hysteresis, log2_growth or log2_backoff is
///          below 1, or log2_min <= log2_initial <= log2_max does not hold, or if the state's growth_tracker or
///          hysteresis_left is negative or its growth_tracker is 2^31 - 1 (the next good step has no number).
/// Contract R14. Sources: [MP:dynamic]; Megatron-LM DynamicGradScaler, DeepSpeed DynamicLossScaler.
using LossScalerUpdateFn = LossScalerState(const LossScalerConfig&, const LossScalerState&,
                                           bool found_inf);

}  // namespace zeroproof
