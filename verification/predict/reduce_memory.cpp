#include "verification/predict/reduce_memory.hpp"

#include <algorithm>

namespace zeroproof {

ReduceMemory::ReduceMemory(const PredictedStep& shape, MemoryTally& tally, LeafStacks& stacks)
    : shape_(shape),
      tally_(tally),
      stacks_(stacks),
      out_(tally),
      in_(tally),
      gathered_(tally),
      leaves_(leaf_numbers(shape, std::int64_t{shape.instance} * shape.world_size + shape.rank)),
      reduced_(shape.buckets.size(), false) {
  if (shape.keeps_leaves()) moves_ = own_moves(shape);
}

StackMove ReduceMemory::move(std::int64_t micro_step) const {
  if (shape_.keeps_leaves()) return moves_[static_cast<std::size_t>(micro_step)];
  StackMove move = stacks_.of(shape_.instance).moves[static_cast<std::size_t>(micro_step)];
  move.here = micro_step < leaves_.count;
  move.senders -= move.here ? 1 : 0;
  return move;
}

/// In front of the first leaf, whichever bucket it belongs to.
void ReduceMemory::begin() {
  if (begun_) return;
  begun_ = true;
  if (shape_.grad_sum != GradSum::binned) return;
  for (const BucketShape& bucket : shape_.buckets) {
    hold_nodes(bucket.count * bin_bytes(shape_.keeps_leaves() ? bucket.range.numel() : bucket.owned));
  }
}

std::int64_t ReduceMemory::held_nodes() const {
  return tally_.use().now[static_cast<std::size_t>(MemoryClass::grad_nodes)];
}

/// What the micro-step before has come to.
void ReduceMemory::note_end() {
  if (last_ == nullptr) return;
  last_->nodes = nodes_;
  last_->bytes += held_nodes();
  last_->spare = spare_;
  last_ = nullptr;
}

bool ReduceMemory::repeats(std::int64_t micro_step) {
  note_end();
  const auto [known, is_new] = known_.try_emplace(
      {begun_, move(micro_step), nodes_, {out_.size(), in_.size(), gathered_.size()}, spare_});
  End& end = known->second;
  if (is_new) {
    last_ = &end;
    end.bytes = -held_nodes();
    return false;
  }
  hold_nodes(end.bytes);
  nodes_ = end.nodes;
  spare_ = end.spare;
  return true;
}

void ReduceMemory::one_leaf(std::size_t b, std::int64_t micro_step) {
  begin();
  const BucketShape& bucket = shape_.buckets[b];
  const StackMove now = move(micro_step);
  const bool combined = now.here && bucket.tp_replicated > 0;  // a leaf with all TP parts in it
  if (combined) gathered_.take(shape_.tp_size * bucket.tp_replicated * num_bytes(shape_.grad_dtype));
  if (shape_.keeps_leaves() && !now.here) return;
  if (shape_.keeps_leaves()) {
    keep(b, now, combined);
  } else {
    receive(b, now, combined);
  }
  reduced_[b] = true;
}

/// New nodes, `times` one after another: `most` at a time, of which `after` stay and `freed` are given back; less than
/// none: so many are done with, and stay as spare ones.
void ReduceMemory::take_nodes(std::int64_t bytes, std::int64_t most, std::int64_t after, std::int64_t times,
                              std::int64_t freed) {
  std::int64_t& spare = spare_[bytes];
  const auto made_if_kept = [&](std::int64_t kept) {
    return std::max<std::int64_t>(0, most + (times - 1) * std::max<std::int64_t>(0, kept) - spare);
  };
  const std::int64_t at_a_time = made_if_kept(after);
  const std::int64_t made = made_if_kept(after + freed);  // what was given back is made again
  hold_nodes(at_a_time * bytes);
  hold_nodes((made - times * freed - at_a_time) * bytes);
  spare += made - times * (after + freed);
}

/// Leaves stay here. combined: the leaf has memory of its own.
void ReduceMemory::keep(std::size_t b, const StackMove& move, bool combined) {
  const BucketShape& bucket = shape_.buckets[b];
  const std::int64_t bytes = 4 * bucket.range.numel();
  const std::int64_t own = combined ? 1 : 0;
  switch (shape_.grad_sum) {
    case GradSum::tree:
      take_nodes(bytes, std::max(own, move.most - move.before), move.after - move.before, bucket.count);
      nodes_ = move.after;
      break;
    case GradSum::binned:
      take_nodes(bytes, own, 0, bucket.count, own);
      break;
    case GradSum::native:
      if (reduced_[b]) take_nodes(bytes, own, 0, bucket.count, own);
      if (!reduced_[b]) take_nodes(bytes, 1, 1, bucket.count);
      nodes_ = 1;
      break;
  }
}

/// Every rank's leaf comes to the owners of its elements. combined: this rank's has memory of its own until then.
void ReduceMemory::receive(std::size_t b, const StackMove& move, bool combined) {
  const BucketShape& bucket = shape_.buckets[b];
  const std::int64_t width = bucket.tp_replicated > 0 ? 4 : num_bytes(shape_.grad_dtype);
  const std::int64_t leaf_bytes = combined ? 4 * bucket.range.numel() : 0;
  const std::int64_t bytes = 4 * bucket.owned;
  const bool tree = shape_.grad_sum == GradSum::tree;
  const bool one_size = tree && combined && bytes == leaf_bytes;  // then spare nodes are for both
  if (!one_size && combined) take_nodes(leaf_bytes, 1, 1);
  out_.take(move.here ? width * (bucket.split - bucket.split_here) : 0);
  in_.take(width * bucket.owned * move.senders);
  if (tree) {
    const std::int64_t own = one_size ? 1 : 0;
    take_nodes(bytes, own + move.most - move.before, move.after - move.before, bucket.count, own);
    nodes_ = move.after;
  }
  if (!one_size) hold_nodes(-leaf_bytes);
}

ReduceMemory::Left ReduceMemory::left_on_stacks() const {
  const InstanceStacks& instance = stacks_.of(shape_.instance);
  const std::int64_t mine = nodes_left(leaves_);
  return {mine, instance.left - mine, instance.holders - (mine > 0 ? 1 : 0), stacks_.joined(shape_.instance),
          stacks_.told()};
}

void ReduceMemory::finish() {
  begin();
  for (auto& [bytes, count] : spare_) hold_nodes(-bytes * count);
  spare_.clear();
  const Left left = left_on_stacks();
  for (std::size_t b = 0; b < shape_.buckets.size(); ++b) {
    const std::int64_t before = held_nodes();
    finish_bucket(b, left);
    // Those that are equal do the same, and as nodes only go, with less held on the way.
    hold_nodes((held_nodes() - before) * (shape_.buckets[b].count - 1));
  }
  if (shape_.stage != 0 || shape_.world_size == 1) return;
  for (const BucketShape& bucket : shape_.buckets) in_.take(4 * bucket.split);
}

void ReduceMemory::finish_bucket(std::size_t b, const Left& left) {
  const BucketShape& bucket = shape_.buckets[b];
  const std::int64_t split_others = bucket.split - bucket.split_here;
  const std::int64_t nodes = reduced_[b] ? nodes_ : 0;
  std::int64_t held = 0;
  std::int64_t told = 0;  // by all instances
  switch (shape_.grad_sum) {
    case GradSum::tree:
      held = nodes * 4 * (shape_.keeps_leaves() ? bucket.range.numel() : bucket.owned);
      told = 4 * bucket.owned * left.told;
      if (!shape_.keeps_leaves()) {  // stacks of several holders are joined, which frees what is combined
        hold_nodes((left.joined - nodes) * 4 * bucket.owned);
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
      if (nodes == 0) hold_nodes(held);  // zeros, for a library that waits for every rank
      if (shape_.world_size == 1) break;
      out_.take(bucket.in_order ? 0 : 4 * bucket.owned_by_all);
      in_.take(4 * bucket.owned);
      break;
  }
  if (shape_.instances > 1 && bucket.owned > 0) gathered_.take(told);
  hold_nodes(-held);
}

}  // namespace zeroproof
