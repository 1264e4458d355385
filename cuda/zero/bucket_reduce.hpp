#pragma once
// Gradient reduction of the production path: leaves in, the owners' sums out (R11), bucket by bucket.

#include <cstdint>
#include <memory>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "cuda/runtime/memory_ledger.hpp"
#include "cuda/runtime/unit_exchange.hpp"
#include "cuda/zero/bucket_plan.hpp"
#include "cuda/zero/bucket_sum.hpp"
#include "cuda/zero/phase_ops.hpp"

namespace zeroproof::cuda {

/// Takes the leaves of one step, whole or bucket by bucket, and leaves G. In stages 2 and 3 every micro-step is one
/// reduction; in stages 0 and 1, and with native sums, leaves are kept until finish(), but never the CP parts of binned
/// sums. No memory stays behind.
class BucketReduce final : public BucketSink {
 public:
  BucketReduce(const OptimizerSetup& setup, const std::vector<BucketPlan>& plans, const PhaseOps& ops,
               MemoryLedger& ledger);

  /// A whole step from whole leaves: reduce() for every bucket of every micro-step, then finish().
  void reduce_leaves(GradSource& leaves, Span<float> grad_sum);

  /// In any stage. Buckets of one micro-step may come in any order, the same on all ranks; micro-steps of a bucket in
  /// increasing order. Errors: invalid_argument if the leaf is not the one this rank has in that micro-step.
  void reduce(std::size_t bucket, std::int64_t micro_step, const TensorView& leaf) override;

  /// After the last micro-step: writes G to grad_sum, in stage 0 all of it, otherwise this rank's shard. Collective
  /// over comm and the instances.
  void finish(Span<float> grad_sum);

  /// Forgets the leaves taken so far, after a step that could not be finished.
  void clear();

 private:
  void begin();
  void exchange_leaves(const BucketPlan& plan, std::int64_t micro_step, const NodeValues& leaf,
                       BucketSum& sum);
  void gather_sums(Span<float> grad_sum);

  const OptimizerSetup& setup_;
  const std::vector<BucketPlan>& plans_;
  const bool keeps_;  ///< leaves stay here until finish()
  LeafNumbers numbers_;
  ReduceTools tools_;
  std::vector<std::unique_ptr<BucketSum>> sums_;  ///< [bucket] during a step, else empty
};

}  // namespace zeroproof::cuda
