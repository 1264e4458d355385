#include "common/step/lr_schedule.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/shown.hpp"
#include "common/step/portable_math64.hpp"

namespace zeroproof {
namespace {

constexpr std::array<std::string_view, 7> decays = {
    "constant", "linear", "cosine", "inverse_square_root", "wsd", "exponential", "table"};
constexpr std::array<std::string_view, 3> warmups = {"linear", "cosine", "log"};
constexpr std::array<std::string_view, 4> wsd_shapes = {"linear", "cosine", "exponential",
                                                        "minus_sqrt"};
constexpr std::array<std::string_view, 3> ramps = {"constant", "linear", "cosine"};
constexpr std::array<std::string_view, 2> units = {"steps", "samples"};

/// Lengths and progress stay within the exact integers of fp64.
constexpr std::int64_t longest = std::int64_t{1} << 53;

double half_wave(double x) { return 0.5 * (1.0 + portable_math64::cos_pi(x)); }

/// Remaining share of max - min after a fraction q of the falling part, 0 <= q <= 1.
double wsd_factor(WsdShape shape, double q) {
  switch (shape) {
    case WsdShape::linear:
      return 1.0 - q;
    case WsdShape::cosine:
      return half_wave(q);
    case WsdShape::exponential:
      return 2.0 * portable_math64::exp(q * portable_math64::log(0.5)) - 1.0;
    case WsdShape::minus_sqrt:
      return 1.0 - std::sqrt(q);
  }
  fail(ErrorCode::internal, "a wsd shape has no formula", "rule R20 lists them",
       "add it to wsd_factor");
}

/// Reached share of max - warmup_init_lr after n of the warm-up's units, 0 <= n <= warmup.
double log_warmup_factor(std::int64_t n, std::int64_t warmup) {
  if (n == 0) return 0.0;
  if (n == warmup) return 1.0;  // also where the logarithm of the length is 0
  const double q = portable_math64::log(static_cast<double>(n)) /
                   portable_math64::log(static_cast<double>(warmup));
  return q > 1.0 ? 1.0 : q;
}

double warmup_lr(const ScheduleConfig& schedule, double max_lr, std::int64_t progress) {
  const double init = schedule.warmup_init_lr;
  const auto n = static_cast<double>(progress);
  const auto length = static_cast<double>(schedule.warmup);
  switch (schedule.warmup_shape) {
    case WarmupShape::linear:
      return init + ((max_lr - init) * n) / length;
    case WarmupShape::cosine:
      return init + (0.5 * (1.0 - portable_math64::cos_pi(n / length))) * (max_lr - init);
    case WarmupShape::log:
      return init + log_warmup_factor(progress, schedule.warmup) * (max_lr - init);
  }
  fail(ErrorCode::internal, "a warm-up shape has no formula", "rule R20 lists them",
       "add it to warmup_lr");
}

/// Rejects settings that a table excludes.
void validate_table(const ScheduleConfig& s) {
  const bool table = s.decay == DecayShape::table;
  ZP_CHECK(table || s.rates.empty(), ErrorCode::config,
           "schedule.rates is given without decay \"table\"", "the rates would have no effect",
           "set decay = \"table\", or remove rates");
  if (!table) return;
  ZP_CHECK(!s.rates.empty(), ErrorCode::config, "schedule.rates is empty with decay \"table\"",
           "the table has the rate of every step", "set one rate for each step");
  ZP_CHECK(s.warmup == 0 && s.unit == ScheduleUnit::steps && !s.first_is_zero, ErrorCode::config,
           "schedule.warmup, unit or first_is_zero is set with decay \"table\"",
           "the table has a rate for every step, the first ones too, and begins with step 1",
           "remove them, and put the warm-up into rates");
  for (std::size_t i = 0; i < s.rates.size(); ++i) {
    ZP_CHECK(std::isfinite(s.rates[i]) && s.rates[i] >= 0, ErrorCode::config,
             "rate " + std::to_string(i + 1) + " of schedule.rates is " + shown(s.rates[i]),
             "rule R5 requires rates that are finite and 0 or more", "use such a number");
  }
}

}  // namespace

Span<const std::string_view> names_of(DecayShape) { return decays; }
Span<const std::string_view> names_of(WarmupShape) { return warmups; }
Span<const std::string_view> names_of(WsdShape) { return wsd_shapes; }
Span<const std::string_view> names_of(RampShape) { return ramps; }
Span<const std::string_view> names_of(ScheduleUnit) { return units; }

double scheduled_lr(const ScheduleConfig& schedule, double max_lr, double min_lr,
                    std::int64_t progress) {
  const std::int64_t warmup = schedule.warmup;
  const std::int64_t end = schedule.decay_end;
  const auto n = static_cast<double>(progress);
  if (schedule.decay == DecayShape::table) {
    const auto last = static_cast<std::int64_t>(schedule.rates.size());
    return schedule.rates[std::clamp<std::int64_t>(progress, 1, last) - 1];
  }
  if (warmup > 0 && progress <= warmup) return warmup_lr(schedule, max_lr, progress);
  if (schedule.decay == DecayShape::constant) return max_lr;
  if (progress > end) return min_lr;
  const auto down_to_min = [&](double c) { return min_lr + c * (max_lr - min_lr); };
  const double r = static_cast<double>(progress - warmup) / static_cast<double>(end - warmup);
  switch (schedule.decay) {
    case DecayShape::constant:
    case DecayShape::table:
      return max_lr;  // handled above
    case DecayShape::linear:
      return down_to_min(1.0 - r);
    case DecayShape::cosine:
      return down_to_min(half_wave(r));
    case DecayShape::inverse_square_root: {
      const double f = (max_lr * std::sqrt(warmup > 1 ? static_cast<double>(warmup) : 1.0)) /
                       std::sqrt(progress > 1 ? n : 1.0);
      return f < min_lr ? min_lr : f;
    }
    case DecayShape::exponential:
      return max_lr * portable_math64::exp(r * portable_math64::log(min_lr / max_lr));
    case DecayShape::wsd: {
      const std::int64_t falls_at = end - schedule.wsd_decay;
      if (progress <= falls_at) return max_lr;
      const double q =
          static_cast<double>(progress - falls_at) / static_cast<double>(schedule.wsd_decay);
      return down_to_min(wsd_factor(schedule.wsd_shape, q));
    }
  }
  fail(ErrorCode::internal, "a decay shape has no formula", "rule R20 lists them",
       "add it to scheduled_lr");
}

double scheduled_weight_decay(const ScheduleConfig& schedule, double weight_decay,
                              std::int64_t progress) {
  if (schedule.weight_decay_ramp == RampShape::constant || progress >= schedule.weight_decay_end) {
    return weight_decay;
  }
  const double x = static_cast<double>(progress) / static_cast<double>(schedule.weight_decay_end);
  const double begin = schedule.weight_decay_begin;
  const double part = schedule.weight_decay_ramp == RampShape::linear
                          ? x
                          : 0.5 * (1.0 - portable_math64::cos_pi(x));
  return begin + part * (weight_decay - begin);
}

std::int64_t progress_of(const ScheduleConfig& schedule, std::int64_t t,
                         std::int64_t micro_batches) {
  ZP_CHECK(t >= 1 && micro_batches >= 1, ErrorCode::invalid_argument,
           "the progress of step " + std::to_string(t) + " with " + std::to_string(micro_batches) +
               " micro-batches is undefined",
           "applied steps are counted from 1, and a step has a micro-batch or more",
           "pass 1 or more for both");
  const std::int64_t steps = schedule.first_is_zero ? t - 1 : t;
  const std::int64_t unit = schedule.unit == ScheduleUnit::samples ? micro_batches : 1;
  ZP_CHECK(steps <= longest / unit, ErrorCode::invalid_argument,
           "step " + std::to_string(t) + " with " + std::to_string(micro_batches) +
               " micro-batches is more than 2^53 units into the schedule",
           "fp64 no longer holds every length there",
           "shorten the run, or count steps instead of samples");
  return steps * unit;
}

void validate(const ScheduleConfig& s) {
  for (const auto& [key, length] :
       {std::pair{"warmup", s.warmup}, std::pair{"decay_end", s.decay_end},
        std::pair{"wsd_decay", s.wsd_decay}, std::pair{"weight_decay_end", s.weight_decay_end}}) {
    ZP_CHECK(length >= 0 && length <= longest, ErrorCode::config,
             std::string("schedule.") + key + " is " + std::to_string(length),
             "it counts steps or samples, in fp64", "use a value from 0 to 2^53");
  }
  for (const auto& [key, rate] :
       {std::pair{"warmup_init_lr", s.warmup_init_lr}, std::pair{"min_lr", s.min_lr},
        std::pair{"weight_decay_begin", s.weight_decay_begin}}) {
    ZP_CHECK(std::isfinite(rate) && rate >= 0, ErrorCode::config,
             std::string("schedule.") + key + " is " + shown(rate),
             "rule R5 requires rates that are finite and 0 or more", "use such a number");
  }
  validate_table(s);
  const bool has_end = s.decay != DecayShape::constant && s.decay != DecayShape::table;
  ZP_CHECK(!has_end || s.decay_end > s.warmup, ErrorCode::config,
           "schedule.decay_end " + std::to_string(s.decay_end) + " is not after schedule.warmup " +
               std::to_string(s.warmup),
           "the rate falls between the two", "use a later decay_end, or decay \"constant\"");
  ZP_CHECK(s.decay != DecayShape::wsd || s.wsd_decay <= s.decay_end - s.warmup, ErrorCode::config,
           "schedule.wsd_decay " + std::to_string(s.wsd_decay) + " is longer than the " +
               std::to_string(s.decay_end - s.warmup) + " units between warmup and decay_end",
           "the rate would fall before it has risen",
           "use a shorter wsd_decay or a later decay_end");
  ZP_CHECK(s.decay != DecayShape::exponential || s.min_lr > 0, ErrorCode::config,
           "schedule.min_lr is 0 with decay \"exponential\"",
           "an exponential never reaches 0, rule R20", "set min_lr above 0, or use another decay");
  ZP_CHECK(s.weight_decay_ramp == RampShape::constant || s.weight_decay_end >= 1, ErrorCode::config,
           "schedule.weight_decay_end is 0 with weight_decay_ramp \"" +
               std::string(ramps[static_cast<std::size_t>(s.weight_decay_ramp)]) + "\"",
           "the ramp would have no effect", "set its end, or use \"constant\"");
}

}  // namespace zeroproof
