#pragma once
// Learning rate and weight decay as functions of the progress of a run (R20). Evaluated once per step and group, in
// fp64, with the project's own cosine and exponential: the same bits on every machine.

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/base/span.hpp"

namespace zeroproof {

/// table: the rate of every step is given, warm-up included.
enum class DecayShape : std::uint8_t {
  constant,
  linear,
  cosine,
  inverse_square_root,
  wsd,
  exponential,
  table
};
/// linear in the progress, half a cosine wave, or linear in its logarithm.
enum class WarmupShape : std::uint8_t { linear, cosine, log };
enum class WsdShape : std::uint8_t { linear, cosine, exponential, minus_sqrt };
enum class RampShape : std::uint8_t { constant, linear, cosine };

/// Unit of the lengths of a schedule: applied steps, or the micro-batches of applied steps.
enum class ScheduleUnit : std::uint8_t { steps, samples };

Span<const std::string_view> names_of(DecayShape);
Span<const std::string_view> names_of(WarmupShape);
Span<const std::string_view> names_of(WsdShape);
Span<const std::string_view> names_of(RampShape);
Span<const std::string_view> names_of(ScheduleUnit);

/// Settings of a run's schedule. The defaults leave lr and weight_decay constant.
struct ScheduleConfig {
  ScheduleUnit unit = ScheduleUnit::steps;
  bool first_is_zero =
      false;  ///< Megatron-LM's: the first step has progress 0, and with warm-up from 0 an lr of 0
  std::int64_t warmup = 0;    ///< units until max lr is reached
  double warmup_init_lr = 0;  ///< lr at the start of warm-up
  WarmupShape warmup_shape = WarmupShape::linear;
  DecayShape decay = DecayShape::constant;
  std::int64_t decay_end = 0;  ///< units until min_lr is reached; unused by constant
  double min_lr = 0;           ///< floor
  std::int64_t wsd_decay = 0;  ///< wsd: units at the end in which the rate falls
  WsdShape wsd_shape = WsdShape::linear;
  RampShape weight_decay_ramp = RampShape::constant;
  double weight_decay_begin = 0;      ///< unused by constant
  std::int64_t weight_decay_end = 0;  ///< units until the configured weight_decay is reached
  std::vector<double> rates = {};     ///< table: of steps 1, 2, ...; later steps have the last one
};

/// lr after `progress` units (R20). Units: progress >= 0, in the schedule's unit. Bitwise.
double scheduled_lr(const ScheduleConfig& schedule, double max_lr, double min_lr,
                    std::int64_t progress);

/// Weight decay after `progress` units (R20). Bitwise.
double scheduled_weight_decay(const ScheduleConfig& schedule, double weight_decay,
                              std::int64_t progress);

/// Progress of the step that would be applied as number t >= 1: t, or t - 1 with first_is_zero; times
/// micro_batches if the unit is samples. Errors: invalid_argument if t or micro_batches is below 1, or beyond
/// 2^53 units.
std::int64_t progress_of(const ScheduleConfig& schedule, std::int64_t t,
                         std::int64_t micro_batches);

/// Errors (ErrorCode::config): lengths that are negative, above 2^53 or out of order (decay_end after warmup,
/// wsd_decay not longer than the units between them, a ramp with an end); rates that are not finite or
/// negative; exponential with a floor of 0; a table without rates, rates without a table, and a table with warm-up,
/// samples or first_is_zero.
void validate(const ScheduleConfig& schedule);

}  // namespace zeroproof
