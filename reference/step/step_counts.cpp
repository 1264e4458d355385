#include "reference/step_counts.hpp"

#include <limits>
#include <string>

#include "common/base/error.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {
namespace {

/// The largest count that leaves one more step possible.
constexpr std::uint64_t last_count = std::numeric_limits<std::int64_t>::max() - 1;

void check_count(const std::string& what, std::uint64_t count, const std::string& shown) {
  ZP_CHECK(count <= last_count, ErrorCode::invalid_argument, what + " is " + shown,
           "it counts applied updates, and one more must be possible",
           "pass 0 or more, below 2^63 - 1");
}

}  // namespace

void StepCounts::count_step(const std::vector<bool>& has_grad) {
  applied_steps += 1;
  for (std::size_t tensor = 0; tensor < tensor_steps.size(); ++tensor) {
    if (has_grad[tensor]) tensor_steps[tensor] += 1;
  }
}

StepCounts loaded_counts(const FullState& state, MissingGrad missing_grad,
                         const FlatLayout& layout) {
  StepCounts counts;
  counts.per_tensor = missing_grad == MissingGrad::skip;
  counts.applied_steps = static_cast<std::uint64_t>(state.applied_steps);
  check_count("applied_steps", counts.applied_steps, std::to_string(state.applied_steps));
  if (!counts.per_tensor) return counts;

  const std::size_t num_tensors = layout.tensors().size();
  ZP_CHECK(state.tensor_steps.size() == num_tensors, ErrorCode::invalid_argument,
           state.tensor_steps.empty() ? std::string("the loaded state has no tensor_steps")
                                      : "the loaded tensor_steps has " +
                                            std::to_string(state.tensor_steps.size()) + " elements",
           "with missing_grad = skip every one of the " + std::to_string(num_tensors) +
               " tensors counts its own updates",
           "pass [num_tensors]");
  counts.tensor_steps.assign(state.tensor_steps.begin(), state.tensor_steps.end());
  for (const std::uint64_t count : counts.tensor_steps) {
    check_count("an element of tensor_steps", count, std::to_string(count));
  }
  return counts;
}

std::vector<StepScalars> scalars_of_step(const OptimizerHyper& hyper, const ParamGroups& groups,
                                         const StepCounts& counts, int log2_loss_scale,
                                         std::int64_t divisor, std::int64_t micro_batches) {
  const auto t_after = [](std::uint64_t count) { return static_cast<std::int64_t>(count) + 1; };
  // lr and weight_decay follow the run's t, also for tensors without a gradient.
  const std::int64_t run_t = t_after(counts.applied_steps);
  std::vector<OptimizerHyper> of_group;
  of_group.reserve(groups.count());
  for (int group = 0; group < groups.count(); ++group) {
    of_group.push_back(hyper_of(groups, hyper, group, run_t, micro_batches));
  }

  std::vector<StepScalars> scalars;
  if (!counts.per_tensor) {
    for (const OptimizerHyper& own : of_group) {
      scalars.push_back(step_scalars(own, run_t, log2_loss_scale, divisor));
    }
    return scalars;
  }
  for (std::size_t tensor = 0; tensor < counts.tensor_steps.size(); ++tensor) {
    const OptimizerHyper& own = of_group[groups.of(static_cast<std::int64_t>(tensor))];
    scalars.push_back(
        step_scalars(own, t_after(counts.tensor_steps[tensor]), log2_loss_scale, divisor));
  }
  return scalars;
}

void add_tokens(std::int64_t& sum, std::int64_t micro_batch, std::int64_t num_tokens) {
  constexpr std::int64_t too_many = std::int64_t{1} << 53;
  ZP_CHECK(0 <= num_tokens && num_tokens < too_many - sum, ErrorCode::invalid_argument,
           "micro-batch " + std::to_string(micro_batch) + " has " + std::to_string(num_tokens) +
               " tokens",
           "the tokens of a step are counted from 0 to below 2^53", "fix the gradient source");
  sum += num_tokens;
}

}  // namespace zeroproof::reference
