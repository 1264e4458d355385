#pragma once
// Tensors that share hyper-parameters: which group a tensor belongs to, and a group's values at a step (R5, R20).

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/contracts/step_scalars.hpp"
#include "common/layout/flat_layout.hpp"
#include "common/step/lr_schedule.hpp"

namespace zeroproof {

/// One group of a configuration. A tensor belongs to the first group that matches it, else to the default group 0.
struct GroupRule {
  std::string name;
  std::vector<std::string> match;  ///< globs (* and ?) on tensor names; any of them
  bool vectors = false;            ///< also every tensor of at most one dimension (biases, gains)
  double lr_mult = 1;
  double weight_decay_mult = 1;
  std::optional<double>
      lr;  ///< decoupled: its own maximum instead of optimizer.lr * lr_mult; not with lr_mult
  std::optional<double> min_lr;  ///< its own floor instead of the schedule's
};

/// Parameter groups of a step. The default (one group, constant schedule) is the optimizer's own lr
/// and decay.
struct ParamGroups {
  std::vector<GroupRule> rules;  ///< rules[i] makes group i + 1
  std::vector<int> of_tensor;    ///< [num_tensors] group; empty: all tensors are in group 0
  ScheduleConfig schedule;

  int count() const { return static_cast<int>(rules.size()) + 1; }
  int of(std::int64_t tensor) const { return of_tensor.empty() ? 0 : of_tensor[tensor]; }
};

/// Checks rules without a model. Errors (ErrorCode::config): those of the schedule; a rule
/// without a name or with the name of another one, with neither match nor vectors, or with both lr and
/// lr_mult; multipliers or rates that are negative or not finite, a group's own lr below its floor, or an lr or floor
/// of its own next to a table of rates.
void validate(const std::vector<GroupRule>& rules, const ScheduleConfig& schedule);

/// Errors (ErrorCode::config): those of validate(), and a rule that matches no tensor, or only tensors of
/// earlier rules.
ParamGroups make_param_groups(const std::vector<GroupRule>& rules, const ScheduleConfig& schedule,
                              const FlatLayout& layout);

/// Hyper-parameters of a group for the step that would be applied as number t: `hyper` with lr and weight_decay
/// replaced (R20). Bitwise. Errors: invalid_argument if there is no such group or t < 1.
OptimizerHyper hyper_of(const ParamGroups& groups, const OptimizerHyper& hyper, int group,
                        std::int64_t t, std::int64_t micro_batches);

}  // namespace zeroproof
