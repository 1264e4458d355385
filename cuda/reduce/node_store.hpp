#pragma once
// Memory of the nodes of a rank during a step: one slot after another, allocated in the first step.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cuda/comm/exchange/bucket_plan.hpp"
#include "cuda/reduce/reduce_tools.hpp"
#include "cuda/reduce/reduction_schedule.hpp"

namespace zeroproof::cuda {

class NodeStore {
 public:
  /// numel: elements of every slot, of the whole model or of this rank's shard. leaf_dtype: stored
  /// type of a leaf to which nothing is added in the step: fp32, or its own type, at the start of
  /// its slot. Both references outlive this.
  NodeStore(const ReduceTools& tools, const ReductionSchedule& moves, std::int64_t numel,
            DType leaf_dtype = DType::fp32)
      : tools_(tools), moves_(moves), numel_(numel), leaf_dtype_(leaf_dtype) {}

  /// The same in existing slots, as many as the schedule needs, each of the whole model.
  NodeStore(const ReduceTools& tools, const ReductionSchedule& moves,
            std::vector<CountedBuffer> slots, DType leaf_dtype)
      : tools_(tools),
        moves_(moves),
        numel_(0),
        leaf_dtype_(leaf_dtype),
        slots_(std::move(slots)) {}

  /// One micro-step over a part of the slots. leaves: those of ReductionSchedule, in that order, over the same part.
  /// flat: slots hold the whole model; packed: slots hold the shard, of which this is one bucket.
  void apply_flat(const host::PieceLoop& loop, std::int64_t micro_step,
                  Span<const NodeValues> leaves);
  void apply_packed(const BucketPlan& plan, std::int64_t micro_step, Span<const NodeValues> leaves);

  NodeValues flat(std::size_t slot, DType dtype = DType::fp32);
  NodeValues packed(std::size_t slot, const BucketPlan& plan, DType dtype = DType::fp32);

  /// A node that is left in a slot of the whole model, or of the shard, in its stored type.
  NodeValues left(const ReductionSchedule::Left& node) {
    return flat(node.source.index, dtype_of(node));
  }
  NodeValues left(const ReductionSchedule::Left& node, const BucketPlan& plan) {
    return packed(node.source.index, plan, dtype_of(node));
  }

  /// With guards, makes everything NaN.
  void forget();

  /// Errors: internal if a kernel wrote past a slot.
  void require_intact() const;

 private:
  void make();
  DType dtype_of(const ReductionSchedule::Left& node) const {
    return node.is_leaf ? leaf_dtype_ : DType::fp32;
  }
  template <class SlotView>
  void apply(const host::PieceLoop& loop, std::int64_t micro_step, Span<const NodeValues> leaves,
             const SlotView& slot);

  const ReduceTools& tools_;
  const ReductionSchedule& moves_;
  const std::int64_t numel_;
  const DType leaf_dtype_ = DType::fp32;
  std::vector<CountedBuffer> slots_;
};

}  // namespace zeroproof::cuda
