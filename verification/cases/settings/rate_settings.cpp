// Param groups, and schedules of learning rate and weight decay. Ramps begin and end among the steps of the run,
// however many were applied before.

#include <algorithm>

#include "verification/cases/settings/setting.hpp"

namespace zeroproof::verification {
namespace {

std::int64_t unit_of(const RunConfig& c) {
  return c.schedule.unit == ScheduleUnit::samples ? c.micro_batches : 1;
}

std::int64_t steps_before(const RunConfig& c) {
  const std::int64_t seven = c.initial_state == InitialState::seeded ? 7 : 0;
  return c.initial_step < 0 ? seven : c.initial_step;
}

/// A point of the schedule: `steps` steps after the first step of the run, in its unit.
std::int64_t after(const RunConfig& c, std::int64_t steps) {
  return (steps_before(c) + steps) * unit_of(c);
}

/// A rate for every step, different from its neighbours; empty for runs that begin too late for a
/// table in a file.
std::vector<double> rates_of(const RunConfig& c) {
  constexpr std::int64_t longest = 10000;
  std::vector<double> rates(std::min(longest, steps_before(c) + c.steps));
  for (std::size_t i = 0; i < rates.size(); ++i)
    rates[i] = c.optimizer.lr * (1 - 0.07 * static_cast<double>(i % 5));
  return rates;
}

bool scheduled(const RunConfig& c) {
  return c.schedule.decay != DecayShape::constant || c.schedule.warmup > 0 ||
         c.schedule.weight_decay_ramp != RampShape::constant;
}

Setting warmup() {
  return {"warmup",
          {"schedule.warmup", "schedule.warmup_init_lr"},
          {{"none", [](RunConfig& c) { c.schedule.warmup = 0; },
            [](const RunConfig& c) { return c.schedule.warmup == 0; }},
           {"on",
            [](RunConfig& c) {
              c.schedule.warmup = after(c, 2);
              c.schedule.warmup_init_lr = 0.1 * c.optimizer.lr;
            },
            [](const RunConfig& c) { return c.schedule.warmup > 0; }}}};
}

Setting warmup_shape() {
  Setting setting = every_choice(
      "warmup_shape", "schedule.warmup_shape",
      [](auto& c) -> auto& { return c.schedule.warmup_shape; });
  setting.applies = [](const RunConfig& c) { return c.schedule.warmup > 0; };
  return setting;
}

/// Decays from the third step of the run to the fifth; the last step is past its end.
Setting decay() {
  Setting setting = every_choice(
      "decay", "schedule.decay", [](auto& c) -> auto& { return c.schedule.decay; });
  setting.keys = {"schedule.decay", "schedule.decay_end", "schedule.min_lr", "schedule.wsd_decay",
                  "schedule.rates"};
  for (SettingValue& value : setting.values) {
    value.set = [set = value.set](RunConfig& c) {
      set(c);
      if (c.schedule.decay == DecayShape::constant) return;
      if (c.schedule.decay == DecayShape::table) {
        c.schedule.rates = rates_of(c);
        return;
      }
      c.schedule.decay_end = after(c, 5);
      c.schedule.min_lr = 0.1 * c.optimizer.lr;
      c.schedule.wsd_decay =
          std::min(after(c, 5) - after(c, 2), c.schedule.decay_end - c.schedule.warmup);
    };
  }
  return setting;
}

Setting wsd_shape() {
  Setting setting = every_choice(
      "wsd_shape", "schedule.wsd_shape", [](auto& c) -> auto& { return c.schedule.wsd_shape; });
  setting.applies = [](const RunConfig& c) { return c.schedule.decay == DecayShape::wsd; };
  return setting;
}

Setting ramp() {
  Setting setting = every_choice(
      "weight_decay_ramp", "schedule.weight_decay_ramp",
      [](auto& c) -> auto& { return c.schedule.weight_decay_ramp; });
  setting.keys.insert(setting.keys.end(),
                      {"schedule.weight_decay_begin", "schedule.weight_decay_end"});
  for (SettingValue& value : setting.values) {
    value.set = [set = value.set](RunConfig& c) {
      set(c);
      if (c.schedule.weight_decay_ramp == RampShape::constant) return;
      c.schedule.weight_decay_begin = 0.004;
      c.schedule.weight_decay_end = after(c, 4);
    };
  }
  return setting;
}

Setting first_is_zero() {
  Setting setting = off_and_on(
      "first_is_zero", "schedule.first_is_zero",
      [](auto& c) -> auto& { return c.schedule.first_is_zero; });
  setting.applies = scheduled;
  return setting;
}

/// Almost the same schedule in another unit: samples end it between two steps.
Setting unit() {
  Setting setting = every_choice(
      "schedule_unit", "schedule.unit", [](auto& c) -> auto& { return c.schedule.unit; });
  setting.applies = scheduled;
  for (SettingValue& value : setting.values) {
    value.set = [set = value.set](RunConfig& c) {
      const std::int64_t before = unit_of(c);
      set(c);
      ScheduleConfig& s = c.schedule;
      for (std::int64_t* length : {&s.warmup, &s.decay_end, &s.wsd_decay, &s.weight_decay_end}) {
        *length = *length / before * unit_of(c);
        const bool moves = *length > 0 && length != &s.wsd_decay && s.unit == ScheduleUnit::samples;
        if (moves) *length += 1;
      }
    };
  }
  return setting;
}

bool has_own_rate(const RunConfig& c) {
  return std::ranges::any_of(c.param_groups,
                             [](const GroupRule& group) { return group.lr.has_value(); });
}

/// Tensors without decay and tensors with half the rate; or one group with its own rate and min_lr.
Setting groups() {
  Setting setting{
      "param_groups",
      {"param_group.name", "param_group.match", "param_group.vectors", "param_group.lr_mult",
       "param_group.weight_decay_mult", "param_group.lr", "param_group.min_lr", "param_group"},
      {}};
  setting.values = {
      {"one", [](RunConfig& c) { c.param_groups.clear(); },
       [](const RunConfig& c) { return c.param_groups.empty(); }},
      {"multipliers",
       [](RunConfig& c) {
         GroupRule vectors{"vectors", {}, true, 1, 0, {}, {}};
         GroupRule up{"up", {"*.mlp.up.*"}, false, 0.5, 1, {}, 0.02 * c.optimizer.lr};
         c.param_groups = {vectors, up};
       },
       [](const RunConfig& c) { return !c.param_groups.empty() && !has_own_rate(c); }},
      {"own-rate",
       [](RunConfig& c) {
         c.param_groups = {{"attention",
                            {"*.attention.*"},
                            false,
                            1,
                            0.5,
                            0.7 * c.optimizer.lr,
                            0.2 * c.optimizer.lr}};
       },
       has_own_rate}};
  return setting;
}

}  // namespace

std::vector<Setting> rate_settings() {
  return {groups(),    warmup(), warmup_shape(), decay(),
          wsd_shape(), ramp(),   unit(),         first_is_zero()};
}

}  // namespace zeroproof::verification
