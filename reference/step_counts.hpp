#pragma once
// Counts of applied updates (R6): one for the run, and with missing_grad = skip one for each
// tensor.

#include <cstdint>
#include <vector>

#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::reference {

/// Without per_tensor, all tensors have the count of the run.
struct StepCounts {
  bool per_tensor = false;
  std::uint64_t applied_steps = 0;
  std::vector<std::uint64_t> tensor_steps;  ///< [num_tensors] if per_tensor, otherwise empty

  /// Applied updates of a tensor.
  std::uint64_t of(std::int64_t tensor) const {
    return per_tensor ? tensor_steps[tensor] : applied_steps;
  }

  /// Index of a tensor's set among those of scalars_of_step: its own, or that of its group.
  std::size_t slot(const ParamGroups& groups, std::int64_t tensor) const {
    return static_cast<std::size_t>(per_tensor ? tensor : groups.of(tensor));
  }

  /// Counts an applied step. has_grad: [num_tensors], read if per_tensor.
  void count_step(const std::vector<bool>& has_grad);
};

/// Errors: invalid_argument if a count is negative or too large, or per-tensor counts are needed
/// and not [num_tensors].
StepCounts loaded_counts(const FullState& state, MissingGrad missing_grad,
                         const FlatLayout& layout);

/// Scalars of the step about to be applied (R5): one set for every group, the default group first,
/// or one for every tensor with its own t. log2_loss_scale, divisor: as for step_scalars.
/// micro_batches: M, for schedules that count samples (R20).
std::vector<StepScalars> scalars_of_step(const OptimizerHyper& hyper, const ParamGroups& groups,
                                         const StepCounts& counts, int log2_loss_scale,
                                         std::int64_t divisor, std::int64_t micro_batches);

/// Adds a micro-batch's tokens. Errors: invalid_argument if the count is negative, or the sum is
/// not below 2^53.
void add_tokens(std::int64_t& sum, std::int64_t micro_batch, std::int64_t num_tokens);

}  // namespace zeroproof::reference
