#pragma once
// Adding up the leaves of one bucket, from the first micro-batch of a step to the owner's G (R11).

#include <cstdint>
#include <memory>
#include <vector>

#include "common/contracts/grad_sum.hpp"
#include "cuda/zero/bucket_plan.hpp"
#include "cuda/zero/reduce_buffers.hpp"

namespace zeroproof::cuda {

/// Which leaves of the tree every data rank has. Leaf u = j * cp + c is part c of micro-batch j.
class LeafNumbers {
 public:
  explicit LeafNumbers(const OptimizerSetup& setup);

  /// Leaf of a rank of this instance in a micro-step, or -1.
  std::int64_t leaf_of(int rank, std::int64_t micro_step) const;

  /// Nodes left when a rank of this instance has pushed all its leaves: what it sends at the end of a step.
  const std::vector<TreeNode>& nodes(int rank) const { return nodes_[static_cast<std::size_t>(rank)]; }

  /// Nodes left when an instance has pushed all its leaves.
  const std::vector<TreeNode>& instance_nodes(int instance) const {
    return instance_nodes_[static_cast<std::size_t>(instance)];
  }

 private:
  std::vector<std::vector<std::int64_t>> numbers_;  // [rank of this instance], increasing
  std::vector<std::vector<TreeNode>> nodes_;
  std::vector<std::vector<TreeNode>> instance_nodes_;
};

/// One bucket of one step. Either this rank keeps its own leaves of the whole bucket and finish() brings them to their
/// owners (keep), or every micro-step brings leaves here and only this rank's part is kept (receive).
class BucketSum {
 public:
  virtual ~BucketSum() = default;

  /// leaf: this rank's, flat over the bucket; may be memory to take over.
  virtual void keep(std::int64_t number, NodeValues leaf) = 0;

  /// leaf: a sender's, over this rank's part. Leaves of one micro-step come in increasing order of numbers. Ranks with
  /// the same `holder` compute the same micro-batches.
  virtual void receive(int holder, std::int64_t number, NodeValues leaf) = 0;

  /// Writes this rank's part of G. Collective over comm and the instances.
  virtual void finish(Span<float> grad_sum) = 0;
};

std::unique_ptr<BucketSum> make_tree_sum(ReduceTools& tools, const LeafNumbers& numbers,
                                         const BucketPlan& plan, bool keeps);
std::unique_ptr<BucketSum> make_binned_sum(ReduceTools& tools, const LeafNumbers& numbers,
                                           const BucketPlan& plan, bool keeps);
/// Keeps always.
std::unique_ptr<BucketSum> make_native_sum(ReduceTools& tools, const BucketPlan& plan);

}  // namespace zeroproof::cuda
