#pragma once
// This rank's gradient of a micro-step in memory that the other ranks of its machine read.

#include <vector>

#include "cuda/comm/exchange/bucket_plan.hpp"
#include "cuda/comm/exchange/shared_buffers.hpp"
#include "cuda/comm/exchange/shared_memory_group.hpp"
#include "cuda/reduce/micro_batch_index.hpp"
#include "cuda/reduce/reduce_tools.hpp"

namespace zeroproof::cuda {

/// In the gradient dtype; fp32 with TP ranks, whose parts are added first.
DType shared_leaf_dtype(const OptimizerSetup& setup);

class GradWindow {
 public:
  /// Collective. numel: of a whole gradient, or of the largest bucket if gradients come bucket by
  /// bucket.
  GradWindow(const ReduceTools& tools, const MicroBatchIndex& numbers,
             const SharedMemoryGroup& near, std::int64_t numel);

  /// Whether it is large enough.
  bool holds(std::int64_t numel) const { return numel <= numel_; }

  /// [padded_numel] for whole gradients; empty on a rank without micro-batches.
  TensorView mine() const { return mine_->view(); }

  /// Copies the gradient over the pieces of a bucket, or of the model, unless it is already there.
  void put(const host::PieceLoop& loop, const NodeValues& leaf);

  /// The gradient of a rank of this machine over a bucket.
  NodeValues of(int rank, const BucketPlan& plan) const {
    return place(buffers_.of(shared_memory_group_.place(rank), 0), plan.range.begin);
  }

  /// Barrier before other ranks read, and before this rank writes again. Collective over the
  /// machine.
  void fence() { buffers_.fence(); }

  /// With guards, makes the gradient NaN. Errors: internal if a kernel wrote outside of it.
  void end();

 private:
  NodeValues place(const TensorView& view, std::int64_t begin) const;

  const ReduceTools& tools_;
  const SharedMemoryGroup& shared_memory_group_;
  const std::int64_t numel_;
  SharedBuffers buffers_;
  CountedBuffer mine_;
};

}  // namespace zeroproof::cuda
