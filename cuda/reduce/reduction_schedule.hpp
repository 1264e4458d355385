#pragma once
// Additions of every micro-step on the nodes of a rank, planned once: the same for every bucket of
// every step.

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

/// slot = sum of the operands, which are then free.
struct NodeMove {
  std::size_t slot = 0;
  host::FoldPlan plan;
  std::vector<NodeSource> operands;
  bool stays = false;  ///< a single leaf, also at the end of the step
};

/// Nodes are stored in slots. The k-th node of a stack is in the stack's k-th slot, so that the
/// address of a slot never changes; leaves that are combined in the micro-step in which they arrive
/// use no slot.
class ReductionSchedule {
 public:
  /// A node that is left after the last micro-step.
  struct Left {
    TreeNode node;
    NodeSource source;     ///< a leaf if the last leaves stay in place
    bool is_leaf = false;  ///< nothing was added to it
  };
  enum class LastLeaves { combined, stay };
  using Steps = std::vector<
      std::vector<ArrivingLeaf>>;  // [micro-step], leaves of a stack in increasing order

  /// The stacks of R11. last: whether the leaves of the last micro-step are combined, or left to
  /// the final sum.
  static ReductionSchedule tree(const Steps& steps, LastLeaves last = LastLeaves::combined);

  /// One slot to which every leaf is added, in order of arrival (R11, native).
  static ReductionSchedule accumulate(const Steps& steps, LastLeaves last = LastLeaves::combined);

  const std::vector<NodeMove>& of(std::int64_t micro_step) const { return moves_[micro_step]; }
  std::size_t slots() const { return slots_; }
  const std::vector<Left>& left() const { return left_; }  ///< in increasing first micro-batch

 private:
  void mark_leaves_that_stay();

  std::vector<std::vector<NodeMove>> moves_;  // [micro-step]
  std::size_t slots_ = 0;
  std::vector<Left> left_;
};

}  // namespace zeroproof::cuda
