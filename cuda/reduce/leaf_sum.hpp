#pragma once
// Adding up the leaves of a step, from the first micro-batch to the owner's G (R11), bucket by bucket.

#include <cstdint>
#include <memory>

#include "cuda/comm/exchange/bucket_plan.hpp"
#include "cuda/comm/exchange/shared_memory_group.hpp"
#include "cuda/reduce/micro_batch_index.hpp"
#include "cuda/reduce/reduce_tools.hpp"

namespace zeroproof::cuda {

/// One way to add. Either this rank keeps its own leaves and finish() brings them to their owners (keep), or every
/// micro-step brings leaves here and only this rank's part is kept (receive).
class LeafSum {
 public:
  virtual ~LeafSum() = default;

  /// Before the first leaf of a step.
  virtual void begin() = 0;

  /// leaf: this rank's in a micro-step, flat, over the pieces of a loop.
  virtual void keep(const host::PieceLoop& loop, std::int64_t micro_step,
                    const NodeValues& leaf) = 0;

  /// leaves: the senders' over this rank's part of a bucket, in increasing order of ranks. The memory is the caller's
  /// again afterwards.
  virtual void receive(const BucketPlan& plan, std::int64_t micro_step,
                       Span<const NodeValues> leaves) = 0;

  /// After the last leaf of a step, before the first finish(). Collective.
  virtual void publish() {}

  /// Where this rank's last leaf of a step need not be copied from, if there is such memory.
  virtual TensorView leaf_buffer() const { return {}; }

  /// Writes this rank's part of a bucket of G. Collective over comm and the instances.
  virtual void finish(const BucketPlan& plan, const NodeValues& grad_sum, const SeeSum& see) = 0;

  /// After the last bucket. Errors: internal if a kernel wrote outside its range.
  virtual void end() = 0;
};

/// tools and numbers outlive the sum.
std::unique_ptr<LeafSum> make_tree_sum(const ReduceTools& tools, const MicroBatchIndex& numbers,
                                       bool keeps);
std::unique_ptr<LeafSum> make_binned_sum(const ReduceTools& tools, const MicroBatchIndex& numbers,
                                         bool keeps);
/// Keeps always: leaves and nodes lie where the ranks of the machine add them up, and only what other machines need is
/// sent, as nodes of this one. Collective. near.any() is true.
std::unique_ptr<LeafSum> make_window_sum(const ReduceTools& tools, const MicroBatchIndex& numbers,
                                         const SharedMemoryGroup& near);
/// Keeps always.
std::unique_ptr<LeafSum> make_native_sum(const ReduceTools& tools, const MicroBatchIndex& numbers);

}  // namespace zeroproof::cuda
