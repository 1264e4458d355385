#include "common/step/param_groups.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "common/base/error.hpp"
#include "common/step/require_config.hpp"

namespace zeroproof {
namespace {

/// Does the whole name match? * stands for any characters, none included, ? for one.
bool glob_matches(std::string_view glob, std::string_view name) {
  std::size_t g = 0;
  std::size_t n = 0;
  std::size_t star =
      std::string_view::npos;  // the last * met: only it ever has to take more, so time is a product
  std::size_t taken = 0;
  while (n < name.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      taken = n;
    } else if (g < glob.size() && (glob[g] == '?' || glob[g] == name[n])) {
      ++g;
      ++n;
    } else if (star != std::string_view::npos) {
      g = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  return glob.find_first_not_of('*', g) == std::string_view::npos;
}

bool belongs(const GroupRule& rule, const TensorSlot& tensor) {
  return (rule.vectors && tensor.shape.size() <= 1) ||
         std::any_of(rule.match.begin(), rule.match.end(),
                     [&](const std::string& glob) { return glob_matches(glob, tensor.name); });
}

void validate_rates(const GroupRule& rule, const ScheduleConfig& schedule) {
  const std::string of = "param group '" + rule.name + "': ";
  const auto rate = [&](const char* key, double value) {
    require_config(std::isfinite(value) && value >= 0, of + key + " is " + shown(value),
                   "rule R5 takes rates that are finite and 0 or more", "use such a number");
  };
  rate("lr_mult", rule.lr_mult);
  rate("weight_decay_mult", rule.weight_decay_mult);
  rate("lr", rule.lr.value_or(0));
  rate("min_lr", rule.min_lr.value_or(0));
  require_config(!rule.lr || rule.lr_mult == 1, of + "it has both lr and lr_mult",
                 "a group's own lr stands instead of a multiple of the run's", "keep one of the two");
  require_config(schedule.decay != DecayShape::table || (!rule.lr && !rule.min_lr),
                 of + "it has an lr or a min_lr of its own with decay \"table\"",
                 "the table says the rate of every step, and the two would do nothing",
                 "use lr_mult, or another decay");
  require_config(schedule.decay != DecayShape::exponential || rule.min_lr.value_or(schedule.min_lr) > 0,
                 of + "min_lr is 0 with decay \"exponential\"", "an exponential never reaches 0, rule R20",
                 "set min_lr above 0, or use another decay");
  require_config(
      schedule.decay == DecayShape::constant || !rule.lr || rule.min_lr.value_or(schedule.min_lr) <= *rule.lr,
      of + "its lr is below its min_lr", "the rate would rise where the schedule lets it fall",
      "raise lr, or give the group a lower min_lr");
}

}  // namespace

void validate(const std::vector<GroupRule>& rules, const ScheduleConfig& schedule) {
  validate(schedule);
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const GroupRule& rule = rules[i];
    require_config(!rule.name.empty(), "param group " + std::to_string(i + 1) + " has no name",
                   "reports and errors name groups", "give it one");
    require_config(std::none_of(rules.begin(), rules.begin() + static_cast<std::ptrdiff_t>(i),
                                [&](const GroupRule& other) { return other.name == rule.name; }),
                   "two param groups have the name '" + rule.name + "'", "reports and errors name groups",
                   "rename one of them");
    require_config(!rule.match.empty() || rule.vectors,
                   "param group '" + rule.name + "' has neither match nor vectors",
                   "no tensor can belong to it", "name tensors in match, or set vectors = true");
    validate_rates(rule, schedule);
  }
}

ParamGroups make_param_groups(const std::vector<GroupRule>& rules, const ScheduleConfig& schedule,
                              const FlatLayout& layout) {
  validate(rules, schedule);
  ParamGroups groups{rules, {}, schedule};
  if (rules.empty()) return groups;
  std::vector<bool> matched(rules.size());
  std::vector<bool> used(rules.size());
  for (const TensorSlot& tensor : layout.tensors()) {
    int group = 0;
    for (std::size_t i = 0; i < rules.size(); ++i) {
      if (!belongs(rules[i], tensor)) continue;
      matched[i] = true;
      if (group == 0) group = static_cast<int>(i) + 1;
    }
    if (group > 0) used[static_cast<std::size_t>(group - 1)] = true;
    groups.of_tensor.push_back(group);
  }
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const std::string problem = "param group '" + rules[i].name + "' ";
    require_config(matched[i], problem + "matches no tensor", "its settings would silently do nothing",
                   "compare match with the names of the model's tensors");
    require_config(used[i], problem + "gets no tensor: earlier groups match all of its own",
                   "its settings would silently do nothing", "move it up, or narrow the groups before it");
  }
  return groups;
}

OptimizerHyper hyper_of(const ParamGroups& groups, const OptimizerHyper& hyper, int group, std::int64_t t,
                        std::int64_t micro_batches) {
  ZP_CHECK(group >= 0 && group < groups.count(), ErrorCode::invalid_argument,
           "param group " + std::to_string(group) + " does not exist",
           "there are " + std::to_string(groups.count()) + ", the default group 0 included", "count from 0");
  const GroupRule rule = group == 0 ? GroupRule{} : groups.rules[static_cast<std::size_t>(group - 1)];
  const ScheduleConfig& schedule = groups.schedule;
  const std::int64_t n = progress_of(schedule, t, micro_batches);
  OptimizerHyper result = hyper;
  result.lr = rule.lr_mult *
              scheduled_lr(schedule, rule.lr.value_or(hyper.lr), rule.min_lr.value_or(schedule.min_lr), n);
  result.weight_decay = rule.weight_decay_mult * scheduled_weight_decay(schedule, hyper.weight_decay, n);
  return result;
}

}  // namespace zeroproof
