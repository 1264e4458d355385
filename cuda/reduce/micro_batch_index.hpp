#pragma once
// Which leaves of the tree every data rank has (R11).

#include <cstdint>
#include <vector>

#include "common/contracts/grad_sum.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "cuda/reduce/reduction_schedule.hpp"

namespace zeroproof::cuda {

/// Leaf u = j * cp + c is part c of micro-batch j.
class MicroBatchIndex {
 public:
  explicit MicroBatchIndex(const OptimizerSetup& setup);

  /// Leaf of a rank of this instance in a micro-step, or -1.
  std::int64_t leaf_of(int rank, std::int64_t micro_step) const;

  /// Nodes left when a rank of this instance has pushed all its leaves; sent at the end of a step.
  const std::vector<TreeNode>& nodes(int rank) const { return nodes_[rank]; }

  /// Nodes left when an instance has pushed all its leaves.
  const std::vector<TreeNode>& instance_nodes(int instance) const {
    return instance_nodes_[instance];
  }

  /// Nodes left when all leaves of some ranks of this instance have been pushed, in increasing order.
  std::vector<TreeNode> nodes_of(const std::vector<int>& ranks) const;

  /// The leaves of one rank, or those that arrive from all ranks of this instance, micro-step by micro-step. Strided
  /// leaves are in order over all senders; blocks of contiguous ones grow side by side, a stack for every holder (ranks
  /// that compute the same micro-batches).
  ReductionSchedule::Steps steps_of(int rank) const;
  ReductionSchedule::Steps arriving_steps() const;

 private:
  const OptimizerSetup& setup_;
  std::vector<std::vector<std::int64_t>> numbers_;  // [rank of this instance], increasing
  std::vector<std::vector<TreeNode>> nodes_;
  std::vector<std::vector<TreeNode>> instance_nodes_;
};

}  // namespace zeroproof::cuda
