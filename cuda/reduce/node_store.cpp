#include "cuda/reduce/node_store.hpp"

#include <algorithm>

#include "common/base/error.hpp"

namespace zeroproof::cuda {

void NodeStore::make() {
  while (slots_.size() < moves_.slots()) slots_.push_back(tools_.memory.nodes(numel_));
}

NodeValues NodeStore::flat(std::size_t slot, DType dtype) {
  make();
  const TensorView whole = slots_[slot]->view();
  return NodeValues::flat(TensorView{whole.data, dtype, whole.numel}, 0);
}

NodeValues NodeStore::packed(std::size_t slot, const BucketPlan& plan, DType dtype) {
  make();
  float* const begin = static_cast<float*>(slots_[slot]->data()) + plan.local_begin;
  return NodeValues::packed(TensorView{begin, dtype, plan.own.numel});
}

template <class SlotView>
void NodeStore::apply(const host::PieceLoop& loop, std::int64_t micro_step,
                      Span<const NodeValues> leaves, const SlotView& slot) {
  const std::vector<NodeMove>& moves = moves_.of(micro_step);
  const auto copied = [&](const NodeMove& move) {
    return move.stays && leaf_dtype_ != DType::fp32;
  };
  std::vector<FoldJob> jobs;
  for (const NodeMove& move : moves) {
    if (copied(move)) continue;
    FoldJob& job = jobs.emplace_back(FoldJob{&move.plan, {}, slot(move.slot, DType::fp32)});
    for (const NodeSource& source : move.operands) {
      job.operands.push_back(source.leaf ? leaves[source.index] : slot(source.index, DType::fp32));
    }
  }
  tools_.run(loop, jobs);
  // Not earlier: a gradient may overwrite one that these sums have read.
  for (const NodeMove& move : moves) {
    if (copied(move))
      tools_.put_leaf(loop, leaves[move.operands.front().index], slot(move.slot, leaf_dtype_));
  }
  if (!tools_.memory.guarded()) return;
  for (const NodeMove& move : moves) {
    for (const NodeSource& source : move.operands) {
      const bool rewritten = source.leaf || std::ranges::any_of(moves, [&](const NodeMove& other) {
                               return other.slot == source.index;
                             });
      if (!rewritten) tools_.forget(loop, slot(source.index, DType::fp32));
    }
  }
}

void NodeStore::apply_flat(const host::PieceLoop& loop, std::int64_t micro_step,
                           Span<const NodeValues> leaves) {
  apply(loop, micro_step, leaves, [&](std::size_t i, DType dtype) { return flat(i, dtype); });
}

void NodeStore::apply_packed(const BucketPlan& plan, std::int64_t micro_step,
                             Span<const NodeValues> leaves) {
  apply(plan.mine, micro_step, leaves,
        [&](std::size_t i, DType dtype) { return packed(i, plan, dtype); });
}

void NodeStore::forget() {
  if (!tools_.memory.guarded()) return;
  for (CountedBuffer& slot : slots_) slot->poison();
}

void NodeStore::require_intact() const {
  for (const CountedBuffer& slot : slots_) {
    ZP_CHECK(slot.intact(), ErrorCode::internal,
             "the red zone of a gradient buffer was overwritten",
             "a kernel wrote outside its range", "report this with the command line");
  }
}

}  // namespace zeroproof::cuda
