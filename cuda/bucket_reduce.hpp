#pragma once
// Gradient reduction of the production path: leaves in, canonical tree sums out (R11), one collective per
// bucket.

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/guarded_buffer.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "cuda/host/node_stack.hpp"
#include "cuda/host/piece_loop.hpp"
#include "cuda/phase_ops.hpp"

namespace zeroproof::cuda {

/// One bucket as this rank sees it.
struct BucketPlan {
  FlatRange range;                ///< the bucket in the global numbering
  std::vector<FlatRange> slices;  ///< [world_size] who owns what of it
  host::PieceLoop pieces;  ///< tensors inside this rank's slice; local indices count from the slice's start
  std::int64_t local_begin = 0;  ///< where this rank's slice starts in its gradient buffer
};

/// Plans for all buckets. `whole` says that gradient buffers cover the full flat range (stage 0) instead of
/// the shard.
std::vector<BucketPlan> plan_buckets(const OptimizerSetup& setup, bool whole);

class BucketReduce {
 public:
  BucketReduce(const OptimizerSetup& setup, const std::vector<BucketPlan>& plans, const PhaseOps& ops);

  /// Contiguous assignment, one reduction for the whole step (stages 0 and 1): the sums of this rank's slices
  /// go to grad_sum at each plan's local_begin.
  void reduce_contiguous(LeafSource& leaves, Span<float> grad_sum);

  /// Strided assignment, one reduction per micro-step (stage 2); the stack lives on the slices.
  void reduce_strided(LeafSource& leaves, Span<float> grad_sum);

 private:
  using Values = std::unique_ptr<GuardedBuffer>;
  using Stack = host::NodeStack<Values>;

  Values take_buffer(std::int64_t numel);
  void give_buffer(Values buffer);
  Stack make_stack(const host::PieceLoop& pieces);
  TensorView checked_leaf(LeafSource& leaves, std::int64_t micro_batch) const;
  void widen(const TensorView& source, Span<float> target, const host::PieceLoop& pieces) const;
  void exchange_nodes(const BucketPlan& plan, std::vector<Stack::Entry>& mine, Span<float> grad_sum);
  void exchange_leaves(const BucketPlan& plan, std::int64_t micro_step, const TensorView& leaf, Stack& stack);
  void store(const BucketPlan& plan, Values sum, Span<float> grad_sum);

  const OptimizerSetup& setup_;
  const std::vector<BucketPlan>& plans_;
  const PhaseOps& ops_;
  host::PieceLoop all_pieces_;
  std::vector<Values> pool_;  ///< freed buffers, reused by size
};

}  // namespace zeroproof::cuda
