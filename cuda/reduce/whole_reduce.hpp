#pragma once
// Phase reduce of a rank that has every leaf of the step: nothing is sent, and it does not matter where buckets end.

#include <optional>

#include "cuda/reduce/micro_batch_index.hpp"
#include "cuda/reduce/node_store.hpp"
#include "cuda/reduce/reduce_tools.hpp"

namespace zeroproof::cuda {

class WholeReduce {
 public:
  /// Whether a rank of this setup is alone with leaves that are added as they are.
  static bool fits(const OptimizerSetup& setup);

  /// ranges: what grad_sum has the elements of. tools and numbers outlive this.
  WholeReduce(const ReduceTools& tools, const MicroBatchIndex& numbers,
              const std::vector<FlatRange>& ranges);

  /// Every leaf is read once; what has been added up so far is written at every second one. The last leaf goes straight
  /// into the sum. Returns the leaf if it is G by itself and stays where it is; grad_sum is then not written.
  /// leaf(i): of the i-th micro-batch, checked; valid until the next call.
  template <class Leaf>
  std::optional<TensorView> run(const Leaf& leaf, const GradTarget& target) {
    TensorView last;
    for (std::int64_t i = 0; i < micro_batches_; ++i) {
      last = leaf(i);
      const NodeValues values = NodeValues::flat(last, 0);
      if (i + 1 < micro_batches_) store_.apply_flat(all_, i, {&values, 1});
    }
    if (micro_batches_ == 1 && target.leaf_may_stay) return last;
    finish(NodeValues::flat(last, 0), target);
    return std::nullopt;
  }

 private:
  void finish(const NodeValues& last, const GradTarget& target);

  const ReduceTools& tools_;
  const std::int64_t micro_batches_;
  const ReductionSchedule moves_;
  const host::FoldPlan fold_;
  const host::PieceLoop all_;   ///< of the model
  const host::PieceLoop mine_;  ///< the same tensors, local indices count in grad_sum
  NodeStore store_;
};

}  // namespace zeroproof::cuda
