#pragma once
// Summation of the gradients of a step, from the first micro-batch to the owner's G (R11), bucket
// by bucket.

#include <cstdint>
#include <memory>

#include "cuda/comm/exchange/bucket_plan.hpp"
#include "cuda/comm/exchange/shared_memory_group.hpp"
#include "cuda/reduce/micro_batch_index.hpp"
#include "cuda/reduce/reduce_tools.hpp"

namespace zeroproof::cuda {

/// One summation method. Either this rank keeps its own gradients and finish() sends them to their
/// owners (keep), or gradients arrive here in every micro-step and only this rank's part is kept
/// (receive).
class LeafSum {
 public:
  virtual ~LeafSum() = default;

  /// Before the first gradient of a step.
  virtual void begin() = 0;

  /// leaf: this rank's gradient in a micro-step, flat, over the pieces of a loop.
  virtual void keep(const host::PieceLoop& loop, std::int64_t micro_step,
                    const NodeValues& leaf) = 0;

  /// leaves: those of the senders over this rank's part of a bucket, in increasing order of ranks.
  /// The caller may overwrite the memory afterwards.
  virtual void receive(const BucketPlan& plan, std::int64_t micro_step,
                       Span<const NodeValues> leaves) = 0;

  /// After the last gradient of a step, before the first finish(). Collective.
  virtual void publish() {}

  /// Memory from which this rank's last gradient of a step need not be copied, if there is any.
  virtual TensorView leaf_buffer() const { return {}; }

  /// Writes this rank's part of a bucket of G. Collective over comm and the instances.
  virtual void finish(const BucketPlan& plan, const NodeValues& grad_sum,
                      const FoldEpilogue& epilogue) = 0;

  /// After the last bucket. Errors: internal if a kernel wrote outside its range.
  virtual void end() = 0;
};

/// tools and numbers outlive the sum.
std::unique_ptr<LeafSum> make_tree_sum(const ReduceTools& tools, const MicroBatchIndex& numbers,
                                       bool keeps);
std::unique_ptr<LeafSum> make_binned_sum(const ReduceTools& tools, const MicroBatchIndex& numbers,
                                         bool keeps);
/// Always keeps: gradients and nodes are in memory that all ranks of the machine read, and only
/// nodes of this machine needed by others are sent. Collective. near.any() is true.
std::unique_ptr<LeafSum> make_window_sum(const ReduceTools& tools, const MicroBatchIndex& numbers,
                                         const SharedMemoryGroup& near);
/// Always keeps.
std::unique_ptr<LeafSum> make_native_sum(const ReduceTools& tools, const MicroBatchIndex& numbers);

}  // namespace zeroproof::cuda
