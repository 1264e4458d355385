#pragma once
// Phase reduce of a rank that has every gradient of the step: nothing is sent, and bucket
// boundaries do not matter.

#include <optional>

#include "cuda/reduce/micro_batch_index.hpp"
#include "cuda/reduce/node_store.hpp"
#include "cuda/reduce/reduce_tools.hpp"

namespace zeroproof::cuda {

class WholeReduce {
 public:
  /// Whether a rank of this setup is alone and its gradients are added unchanged.
  static bool fits(const OptimizerSetup& setup);

  /// ranges: the elements of grad_sum. tools and numbers outlive this.
  WholeReduce(const ReduceTools& tools, const MicroBatchIndex& numbers,
              const std::vector<FlatRange>& ranges);

  /// Every gradient is read once; the partial sum is written at every second one. The last gradient
  /// is added directly into the target. Returns the gradient if it itself is G and stays in place;
  /// grad_sum is then not written.
  /// leaf(i): gradient of the i-th micro-batch, checked; valid until the next call.
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
  const host::PieceLoop mine_;  ///< the same tensors, with local indices into grad_sum
  NodeStore store_;
};

}  // namespace zeroproof::cuda
