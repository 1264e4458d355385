#include "common/step/clip_groups.hpp"

#include <cmath>

#include "common/base/error.hpp"
#include "common/base/shown.hpp"
#include "common/step/tensor_groups.hpp"

namespace zeroproof {

void validate(const std::vector<ClipGroupRule>& rules) {
  for (std::size_t i = 0; i < rules.size(); ++i) {
    validate_group(rules, i, "clip group");
    const ClipGroupRule& rule = rules[i];
    ZP_CHECK(!rule.max_norm || (std::isfinite(*rule.max_norm) && *rule.max_norm >= 0),
             ErrorCode::config,
             "clip group '" + rule.name + "': max_norm is " + shown(rule.max_norm.value_or(0)),
             "a negative limit would reverse every gradient",
             "use a positive number, 0 for no clipping, or leave it out for the run's");
  }
}

ClipGroups make_clip_groups(const std::vector<ClipGroupRule>& rules, const FlatLayout& layout) {
  validate(rules);
  return {rules, group_tensors(rules, layout, "clip group", "its limit")};
}

std::vector<std::optional<double>> max_norms_of(const ClipGroups& groups,
                                                const std::optional<double>& run) {
  std::vector<std::optional<double>> limits = {run};
  for (const ClipGroupRule& rule : groups.rules)
    limits.push_back(rule.max_norm ? rule.max_norm : run);
  return limits;
}

}  // namespace zeroproof
