#pragma once
// Tensors that are clipped together: each group has a norm, a limit and a coefficient of its own (R12).

#include <optional>
#include <string>
#include <vector>

#include "common/contracts/step_scalars.hpp"
#include "common/layout/flat_layout.hpp"

namespace zeroproof {

/// One group of a configuration. A tensor belongs to the first group that matches it, else to the default group 0.
/// Sources: [Clip:groups].
struct ClipGroupRule {
  std::string name;
  std::vector<std::string> match;  ///< globs (* and ?) on tensor names; any of them
  bool vectors = false;            ///< also every tensor of at most one dimension (biases, gains)
  std::optional<double> max_norm;  ///< its own limit, 0 for none, in place of the run's
};

/// Clip groups of a step. The default is one group: a norm over all tensors.
struct ClipGroups {
  std::vector<ClipGroupRule> rules;  ///< rules[i] makes group i + 1
  std::vector<int> of_tensor;        ///< [num_tensors] group; empty: all tensors are in group 0

  int count() const { return static_cast<int>(rules.size()) + 1; }
  int of(std::int64_t tensor) const { return of_tensor.empty() ? 0 : of_tensor[tensor]; }
};

/// Checks rules without a model. Errors (ErrorCode::config): a rule without a name or with the name
/// of another one, with neither match nor vectors, or with a max_norm that is negative or not
/// finite.
void validate(const std::vector<ClipGroupRule>& rules);

/// Errors (ErrorCode::config): those of validate(), and a rule that matches no tensor, or only tensors of earlier
/// rules.
ClipGroups make_clip_groups(const std::vector<ClipGroupRule>& rules, const FlatLayout& layout);

/// max_norm of every group [groups.count()], the default group first: its own, or `run`. Errors: none; values are not
/// checked.
std::vector<std::optional<double>> max_norms_of(const ClipGroups& groups,
                                                const std::optional<double>& run);

}  // namespace zeroproof
