#include "reference/step_counts.hpp"

#include <limits>
#include <string>

#include "common/base/error.hpp"
#include "reference/step_scalars.hpp"

namespace zeroproof::reference {
namespace {

/// The largest count after which there can be another step.
constexpr std::uint64_t last_count = std::numeric_limits<std::int64_t>::max() - 1;

void check_count(const std::string& what, std::uint64_t count, const std::string& shown) {
  ZP_CHECK(count <= last_count, ErrorCode::invalid_argument, what + " is " + shown,
           "it counts applied updates, and there must be room for another", "pass 0 or more, below 2^63 - 1");
}

}  // namespace

void StepCounts::count_step(const std::vector<bool>& has_grad) {
  applied_steps += 1;
  for (std::size_t tensor = 0; tensor < tensor_steps.size(); ++tensor) {
    if (has_grad[tensor]) tensor_steps[tensor] += 1;
  }
}

StepCounts loaded_counts(const FullState& state, MissingGrad missing_grad, const FlatLayout& layout) {
  StepCounts counts;
  counts.per_tensor = missing_grad == MissingGrad::skip;
  counts.applied_steps = static_cast<std::uint64_t>(state.applied_steps);
  check_count("applied_steps", counts.applied_steps, std::to_string(state.applied_steps));
  if (!counts.per_tensor) return counts;

  const std::size_t num_tensors = layout.tensors().size();
  ZP_CHECK(state.tensor_steps.size() == num_tensors, ErrorCode::invalid_argument,
           state.tensor_steps.empty()
               ? std::string("the loaded state has no tensor_steps")
               : "the loaded tensor_steps has " + std::to_string(state.tensor_steps.size()) + " elements",
           "with missing_grad = skip every one of the " + std::to_string(num_tensors) +
               " tensors counts its own updates",
           "pass [num_tensors]");
  counts.tensor_steps.assign(state.tensor_steps.begin(), state.tensor_steps.end());
  for (const std::uint64_t count : counts.tensor_steps) {
    check_count("an element of tensor_steps", count, std::to_string(count));
  }
  return counts;
}

std::vector<StepScalars> scalars_of_step(const OptimizerHyper& hyper, const StepCounts& counts,
                                         int log2_loss_scale, std::int64_t divisor) {
  const auto scalars_after = [&](std::uint64_t count) {
    return step_scalars(hyper, static_cast<std::int64_t>(count) + 1, log2_loss_scale, divisor);
  };
  if (!counts.per_tensor) return {scalars_after(counts.applied_steps)};
  std::vector<StepScalars> scalars;
  for (const std::uint64_t count : counts.tensor_steps) scalars.push_back(scalars_after(count));
  return scalars;
}

}  // namespace zeroproof::reference
