#pragma once
// What every micro-step does to the nodes that a rank holds, worked out once: the same for every bucket of every step.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/contracts/grad_sum.hpp"
#include "cuda/host/fold_plan.hpp"

namespace zeroproof::cuda {

/// A leaf that arrives. Leaves of different stacks are not combined before the end of a step.
struct ArrivingLeaf {
  int stack = 0;
  std::int64_t number = 0;
};

/// One operand of a sum: a slot, or one of the leaves of the micro-step.
struct NodeSource {
  bool leaf = false;
  std::size_t index = 0;
};

/// slot = sum of the operands, which are then done with.
struct NodeMove {
  std::size_t slot = 0;
  host::FoldPlan plan;
  std::vector<NodeSource> operands;
  bool stays = false;  ///< a leaf by itself, and still so at the end of the step
};

/// Nodes live in slots. The node that stands k-th on its stack is in the stack's k-th slot, so that a slot has one
/// place in memory for ever; leaves that are combined in the micro-step in which they come take none.
class ReductionSchedule {
 public:
  /// A node that is left after the last micro-step.
  struct Left {
    TreeNode node;
    NodeSource source;     ///< a leaf if the last leaves stay where they are
    bool is_leaf = false;  ///< nothing was added to it
  };
  enum class LastLeaves { combined, stay };
  using Steps = std::vector<
      std::vector<ArrivingLeaf>>;  // [micro-step], leaves of a stack in increasing order

  /// The stacks of R11. last: whether the leaves of the last micro-step are combined, or left for whoever finishes.
  static ReductionSchedule tree(const Steps& steps, LastLeaves last = LastLeaves::combined);

  /// One slot to which every leaf is added, in the order in which they come (R11, native).
  static ReductionSchedule accumulate(const Steps& steps, LastLeaves last = LastLeaves::combined);

  const std::vector<NodeMove>& of(std::int64_t micro_step) const {
    return moves_[static_cast<std::size_t>(micro_step)];
  }
  std::size_t slots() const { return slots_; }
  const std::vector<Left>& left() const { return left_; }  ///< in increasing first micro-batch

 private:
  void mark_leaves_that_stay();

  std::vector<std::vector<NodeMove>> moves_;  // [micro-step]
  std::size_t slots_ = 0;
  std::vector<Left> left_;
};

}  // namespace zeroproof::cuda
