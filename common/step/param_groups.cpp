#include "common/step/param_groups.hpp"

#include <cmath>

#include "common/base/error.hpp"
#include "common/base/shown.hpp"
#include "common/step/tensor_groups.hpp"

namespace zeroproof {
namespace {

void validate_rates(const GroupRule& rule, const ScheduleConfig& schedule) {
  const std::string of = "param group '" + rule.name + "': ";
  const auto rate = [&](const char* key, double value) {
    ZP_CHECK(std::isfinite(value) && value >= 0, ErrorCode::config,
             of + key + " is " + shown(value),
             "rule R5 requires rates that are finite and 0 or more", "use such a number");
  };
  rate("lr_mult", rule.lr_mult);
  rate("weight_decay_mult", rule.weight_decay_mult);
  rate("lr", rule.lr.value_or(0));
  rate("min_lr", rule.min_lr.value_or(0));
  ZP_CHECK(!rule.lr || rule.lr_mult == 1, ErrorCode::config, of + "it has both lr and lr_mult",
           "a group's own lr replaces the run's lr * lr_mult", "remove one of the two");
  ZP_CHECK(schedule.decay != DecayShape::table || (!rule.lr && !rule.min_lr), ErrorCode::config,
           of + "it sets lr or min_lr with decay \"table\"",
           "the table has the rate of every step, and the two would have no effect",
           "use lr_mult, or another decay");
  ZP_CHECK(schedule.decay != DecayShape::exponential || rule.min_lr.value_or(schedule.min_lr) > 0,
           ErrorCode::config, of + "min_lr is 0 with decay \"exponential\"",
           "an exponential never reaches 0, rule R20", "set min_lr above 0, or use another decay");
  ZP_CHECK(schedule.decay == DecayShape::constant || !rule.lr ||
               rule.min_lr.value_or(schedule.min_lr) <= *rule.lr,
           ErrorCode::config, of + "its lr is below its min_lr",
           "the rate would rise where the schedule falls",
           "raise lr, or set a lower min_lr for the group");
}

}  // namespace

void validate(const std::vector<GroupRule>& rules, const ScheduleConfig& schedule) {
  validate(schedule);
  for (std::size_t i = 0; i < rules.size(); ++i) {
    validate_group(rules, i, "param group");
    validate_rates(rules[i], schedule);
  }
}

ParamGroups make_param_groups(const std::vector<GroupRule>& rules, const ScheduleConfig& schedule,
                              const FlatLayout& layout) {
  validate(rules, schedule);
  return {rules, group_tensors(rules, layout, "param group", "its settings"), schedule};
}

OptimizerHyper hyper_of(const ParamGroups& groups, const OptimizerHyper& hyper, int group,
                        std::int64_t t, std::int64_t micro_batches) {
  ZP_CHECK(group >= 0 && group < groups.count(), ErrorCode::invalid_argument,
           "param group " + std::to_string(group) + " does not exist",
           "there are " + std::to_string(groups.count()) + ", the default group 0 included",
           "count from 0");
  const GroupRule rule = group == 0 ? GroupRule{} : groups.rules[group - 1];
  const ScheduleConfig& schedule = groups.schedule;
  const std::int64_t n = progress_of(schedule, t, micro_batches);
  OptimizerHyper result = hyper;
  result.lr = rule.lr_mult * scheduled_lr(schedule, rule.lr.value_or(hyper.lr),
                                          rule.min_lr.value_or(schedule.min_lr), n);
  result.weight_decay =
      rule.weight_decay_mult * scheduled_weight_decay(schedule, hyper.weight_decay, n);
  return result;
}

}  // namespace zeroproof
