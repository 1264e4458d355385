#include "verification/predict/reduce_memory.hpp"

#include <algorithm>

namespace zeroproof {

ReduceMemory::ReduceMemory(const PredictedStep& shape, MemoryTally& tally)
    : shape_(shape),
      tally_(tally),
      out_(tally),
      in_(tally),
      gathered_(tally),
      nodes_(shape.buckets.size(), 0) {
  for (int rank = 0; rank < shape.world_size; ++rank) leaves_.push_back(leaves_of(shape, data_rank(rank)));
  make_moves();
}

/// In front of the first leaf, whichever bucket it belongs to.
void ReduceMemory::begin() {
  if (begun_) return;
  begun_ = true;
  if (shape_.grad_sum != GradSum::binned) return;
  for (const BucketShape& bucket : shape_.buckets) {
    hold_nodes(bin_bytes(shape_.keeps_leaves() ? bucket.range.numel() : bucket.owned));
  }
}

void ReduceMemory::one_leaf(std::size_t b, std::int64_t micro_step) {
  begin();
  const BucketShape& bucket = shape_.buckets[b];
  const StackMove& move = moves_[static_cast<std::size_t>(micro_step)];
  const bool combined = move.here && bucket.tp_replicated > 0;  // a leaf with all TP parts in it
  if (combined) {
    gathered_.take(shape_.tp_size * bucket.tp_replicated * num_bytes(shape_.grad_dtype));
    take_nodes(4 * bucket.range.numel(), 1, 1);
  }
  if (shape_.keeps_leaves()) {
    if (move.here) keep(b, move, combined);
    return;
  }
  receive(b, move);
  if (combined) hold_nodes(-4 * bucket.range.numel());
}

/// New nodes, `most` at a time and `after` in the end; less than none: so many are done with, and stay as
/// spare ones.
void ReduceMemory::take_nodes(std::int64_t bytes, std::int64_t most, std::int64_t after) {
  std::int64_t& spare = spare_[bytes];
  const std::int64_t made = std::max<std::int64_t>(0, most - spare);
  hold_nodes(made * bytes);
  spare += made - after;
}

/// Bytes of an entry of a stack.
std::int64_t ReduceMemory::node_bytes(std::size_t b) const {
  const BucketShape& bucket = shape_.buckets[b];
  return 4 * (shape_.keeps_leaves() ? bucket.range.numel() : bucket.owned);
}

/// The stacks after every micro-step, from R11 alone.
void ReduceMemory::make_moves() {
  const bool kept = shape_.keeps_leaves();
  const bool one_stack = kept || shape_.strided();
  const std::int64_t first_holder = data_rank(0) / shape_.cp;
  std::vector<NodeCount> stacks(one_stack ? 1 : leaves_.size());
  std::int64_t nodes = 0;
  for (std::int64_t i = 0; i < shape_.micro_steps(); ++i) {
    StackMove move;
    move.before = move.most = nodes;
    for (int rank = 0; rank < shape_.world_size; ++rank) {
      const std::vector<std::int64_t>& leaves = leaves_[static_cast<std::size_t>(rank)];
      if (i >= static_cast<std::int64_t>(leaves.size())) continue;
      if (rank == shape_.rank) move.here = true;
      move.senders += rank == shape_.rank ? 0 : 1;
      if (kept && rank != shape_.rank) continue;
      const auto stack = static_cast<std::size_t>(one_stack ? 0 : data_rank(rank) / shape_.cp - first_holder);
      nodes += 1 - stacks[stack].push(leaves[static_cast<std::size_t>(i)]);
      move.most = std::max(move.most, nodes);
    }
    move.after = nodes;
    moves_.push_back(move);
  }
}

/// Leaves stay here. combined: the leaf has memory of its own.
void ReduceMemory::keep(std::size_t b, const StackMove& move, bool combined) {
  const std::int64_t bytes = node_bytes(b);
  const std::int64_t own = combined ? 1 : 0;
  switch (shape_.grad_sum) {
    case GradSum::tree:
      take_nodes(bytes, move.most - move.before - own, move.after - move.before - own);
      nodes_[b] = move.after;
      break;
    case GradSum::binned:
      hold_nodes(-own * bytes);
      break;
    case GradSum::native:
      if (nodes_[b] > 0) hold_nodes(-own * bytes);
      if (nodes_[b] == 0) take_nodes(bytes, 1 - own, 1 - own);
      nodes_[b] = 1;
      break;
  }
}

/// Every rank's leaf comes to the owners of its elements.
void ReduceMemory::receive(std::size_t b, const StackMove& move) {
  const BucketShape& bucket = shape_.buckets[b];
  const std::int64_t width = bucket.tp_replicated > 0 ? 4 : num_bytes(shape_.grad_dtype);
  out_.take(move.here ? width * (bucket.split - bucket.split_here) : 0);
  in_.take(width * bucket.owned * move.senders);
  if (shape_.grad_sum != GradSum::tree) return;
  take_nodes(node_bytes(b), move.most - move.before, move.after - move.before);
  nodes_[b] = move.after;
}

ReduceMemory::Left ReduceMemory::left_on_stacks() const {
  Left left;
  for (int rank = 0; rank < shape_.world_size; ++rank) {
    const std::int64_t entries = stack_use(leaves_[static_cast<std::size_t>(rank)]).left;
    (rank == shape_.rank ? left.mine : left.others) += entries;
    left.senders += rank != shape_.rank && entries > 0 ? 1 : 0;
  }
  for (int i = 0; i < shape_.instances; ++i) {
    const std::int64_t entries = instance_nodes(shape_, i);
    if (i == shape_.instance) left.joined = entries;
    left.told += entries;
  }
  return left;
}

void ReduceMemory::finish() {
  begin();
  for (auto& [bytes, count] : spare_) hold_nodes(-bytes * count);
  spare_.clear();
  const Left left = left_on_stacks();
  for (std::size_t b = 0; b < shape_.buckets.size(); ++b) finish_bucket(b, left);
  if (shape_.stage != 0 || shape_.world_size == 1) return;
  for (const BucketShape& bucket : shape_.buckets) in_.take(4 * bucket.split);
}

void ReduceMemory::finish_bucket(std::size_t b, const Left& left) {
  const BucketShape& bucket = shape_.buckets[b];
  const std::int64_t split_others = bucket.split - bucket.split_here;
  std::int64_t held = 0;
  std::int64_t told = 0;  // by all instances
  switch (shape_.grad_sum) {
    case GradSum::tree:
      held = nodes_[b] * 4 * (shape_.keeps_leaves() ? bucket.range.numel() : bucket.owned);
      told = 4 * bucket.owned * left.told;
      if (!shape_.keeps_leaves()) {  // stacks of several holders are joined, which frees what is combined
        hold_nodes((left.joined - nodes_[b]) * 4 * bucket.owned);
        held = left.joined * 4 * bucket.owned;
        break;
      }
      out_.take(4 * left.mine * (left.mine == 1 ? split_others : bucket.owned_by_others()));
      in_.take(4 * bucket.owned * left.others);
      break;
    case GradSum::binned:
      held = bin_bytes(shape_.keeps_leaves() ? bucket.range.numel() : bucket.owned);
      told = shape_.instances * bin_bytes(bucket.owned);
      if (!shape_.keeps_leaves()) break;
      out_.take(left.mine == 0 ? 0 : 8 * bucket.owned_by_others() + 4 * bucket.quads);
      in_.take(bin_bytes(bucket.owned) * left.senders);
      break;
    case GradSum::native:
      held = 4 * bucket.range.numel();
      told = 8 * bucket.owned;
      if (nodes_[b] == 0) hold_nodes(held);  // zeros, for a library that waits for every rank
      if (shape_.world_size == 1) break;
      out_.take(bucket.in_order ? 0 : 4 * bucket.owned_by_all);
      in_.take(4 * bucket.owned);
      break;
  }
  if (shape_.instances > 1 && bucket.owned > 0) gathered_.take(told);
  hold_nodes(-held);
}

}  // namespace zeroproof
