#pragma once
// Gradient reduction of the production path: micro-batch gradients in, the owners' sums out (R11),
// bucket by bucket.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "cuda/comm/exchange/bucket_plan.hpp"
#include "cuda/optimizer/overlap/unit_exchange.hpp"
#include "cuda/reduce/grad_window.hpp"
#include "cuda/reduce/leaf_sum.hpp"
#include "cuda/reduce/reduce_tools.hpp"
#include "cuda/reduce/whole_reduce.hpp"

namespace zeroproof::cuda {

/// Takes the gradients of one step, whole or bucket by bucket, and computes G. In stages 2 and 3
/// every micro-step is one reduction; in stages 0 and 1, and with native sums, gradients are kept
/// until finish(), but never the CP parts of binned sums. Memory is allocated in the first step and
/// kept.
class BucketReduce final : public BucketSink {
 public:
  /// near: null for messages only.
  BucketReduce(const OptimizerSetup& setup, const std::vector<BucketPlan>& plans,
               const KernelTable& ops, GradMemory& memory, const SharedMemoryGroup* near,
               const CommGroups& comm_groups);

  /// Memory from which a gradient need not be copied; see DistributedOptimizer. Collective over
  /// comm the first time.
  TensorView leaf_buffer();

  /// A whole step from whole gradients. Returns a gradient that itself is G and may stay in place;
  /// grad_sum is then not written.
  std::optional<TensorView> reduce_leaves(GradSource& leaves, const GradTarget& target);

  /// Stage 0, if all ranks share memory: address of G of every rank, [padded_numel]. Outlives this.
  void read_sums(SharedBuffers& sums) { sums_ = &sums; }

  /// Sets the target of this step's G. A bucket whose gradients come here in every micro-step is
  /// finished by reduce() after its last ones; the others by finish(), which gets the same target.
  void expect(const GradTarget& target) { target_ = target; }

  /// In any stage. Buckets of one micro-step may come in any order, the same on all ranks;
  /// micro-steps of a bucket in increasing order. Errors: invalid_argument if the gradient is not
  /// that of this rank in that micro-step.
  void reduce(std::size_t bucket, std::int64_t micro_step, const TensorView& leaf) override;

  /// After the last micro-step: writes G, in stage 0 all of it, otherwise this rank's shard.
  /// Collective over comm and the instances.
  void finish(const GradTarget& target);

  /// Discards the gradients taken so far, after a step that could not be finished.
  void clear();

 private:
  void begin();
  void make_sum();
  bool reads_leaves() const {
    return shared_memory_group_ != nullptr && !keeps_ && setup_.grad_sum == GradSum::tree;
  }
  GradWindow& grad_window(std::int64_t numel);
  void share_leaf(std::int64_t micro_step, const TensorView& leaf);
  void exchange_leaves(const BucketPlan& plan, std::int64_t micro_step, const NodeValues& leaf);
  void receive_leaves(const BucketPlan& plan, std::int64_t micro_step, const NodeValues& leaf);
  void finish_bucket(std::size_t bucket, const GradTarget& target);
  void gather_sums(Span<float> grad_sum);
  void copy_sums(Span<float> grad_sum);

  const OptimizerSetup& setup_;
  const std::vector<BucketPlan>& plans_;
  const bool keeps_;  ///< gradients stay here until finish()
  const SharedMemoryGroup* const shared_memory_group_;
  const MicroBatchIndex numbers_;
  const ReduceTools tools_;
  /// Of the model, if whole gradients are processed without their buckets.
  std::optional<host::PieceLoop> all_;
  std::unique_ptr<WholeReduce> whole_;  ///< made in the first step that can use it
  std::unique_ptr<LeafSum> sum_;        ///< the same
  std::optional<GradWindow> leaves_;    ///< the same
  SharedBuffers* sums_ = nullptr;
  bool begun_ = false;
  std::optional<GradTarget> target_;
  std::vector<bool> finished_;  // [buckets]
};

}  // namespace zeroproof::cuda
