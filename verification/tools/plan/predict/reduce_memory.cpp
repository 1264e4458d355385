#include "verification/tools/plan/predict/reduce_memory.hpp"

#include <algorithm>

namespace zeroproof {
namespace {

/// Whether the rank has every leaf and adds whole leaves. A layered model supplies them bucket by
/// bucket.
bool adds_whole_leaves(const PredictedStep& shape) {
  return shape.data_ranks() == 1 && shape.tp_size == 1 && shape.grad_sum != GradSum::binned &&
         !(shape.layered() && shape.stage >= 2);
}

/// Windows: a leaf of this rank in memory that the other ranks can read. Kept leaves must be whole
/// there; others are stored bucket by bucket with layers or TP parts.
std::int64_t shared_leaf_bytes(const PredictedStep& shape) {
  if (!shape.reads_in_place() || own_leaves(shape) == 0) return 0;
  const std::int64_t width = shape.leaf_bytes();
  bool whole = shape.keeps_leaves() || !shape.layered();
  std::int64_t largest = 0;
  for (const BucketShape& bucket : shape.buckets) {
    largest = std::max(largest, bucket.range.numel());
    if (!shape.keeps_leaves() && bucket.tp_replicated > 0) whole = false;
  }
  return width * (whole ? shape.padded_numel : largest);
}

std::int64_t node_bytes(const PredictedStep& shape, LeafStacks& stacks) {
  const std::int64_t numel = shape.keeps_leaves() ? shape.padded_numel : shape.shard_numel;
  if (shape.grad_sum == GradSum::binned) return bin_bytes(numel);
  if (adds_whole_leaves(shape)) {  // the last leaf needs no memory
    const std::int64_t kept = shape.micro_batches - 1;
    const std::int64_t native = kept > 0 ? 1 : 0;
    return 4 * shape.padded_numel *
           (shape.grad_sum == GradSum::native ? native : most_nodes({0, 1, kept}));
  }
  if (shape.grad_sum == GradSum::native) return 4 * numel;
  if (!shape.keeps_leaves())
    return 4 * numel * stacks.of(shape.instance).most_nodes + shared_leaf_bytes(shape);
  MicroBatchIndex leaves = own_micro_batch_index(shape);
  if (shape.reads_in_place() && leaves.count > 0) --leaves.count;  // the last leaf is not copied
  return 4 * numel * most_nodes(leaves) + shared_leaf_bytes(shape);
}

/// The sizes of three buffers.
class Messages {
 public:
  Messages(const PredictedStep& shape, LeafStacks& stacks)
      : shape_(shape),
        computes_(own_leaves(shape) > 0),
        joined_bytes_(shape.node_bytes(stacks.joined_total().nodes, stacks.joined_total().leaves)),
        instances_by_units_(stacks.instances_by_units()),
        receives_(stacks.of(shape.instance).leaves > 0),
        mine_(nodes_left(own_micro_batch_index(shape))),
        stacks_(stacks.of(shape.instance)),
        my_bytes_(shape.node_bytes(mine_, leaves_left(own_micro_batch_index(shape)))),
        other_bytes_(shape.node_bytes(stacks_.left, stacks_.left_leaves) - my_bytes_),
        senders_(stacks_.holders - (mine_ > 0 ? 1 : 0)),
        others_by_units_(stacks_.holders_by_units) {
    --others_by_units_[units_of(my_bytes_)];
    grow(out_, shape.matrices.out_bytes);
    grow(in_, shape.matrices.in_bytes);
    grow(gathered_, shape.matrices.gathered_bytes);
    for (const BucketShape& bucket : shape.buckets) {
      add_tp_parts(bucket);
      if (!adds_whole_leaves(shape)) add_sums(bucket);
      if (shape.reads_in_place()) continue;  // nothing is gathered
      if (shape.stage == 0 && shape.world_size > 1) grow(in_, bucket.split_bytes(4));
      if ((shape.stage == 1 || shape.stage == 2) && whole_param_numel(shape) > 0)
        grow(in_, bucket.split_bytes(num_bytes(shape.param_dtype)));
    }
    if (shape.stage != 3 || shape.world_size == 1 || shape.reads_in_place()) return;
    gather(shape.persistent.split);
    for (const GatherShape& unit : shape.units) gather(unit.split);
  }

  std::int64_t total() const {
    return out_ + in_ + gathered_ + shape_.matrices.whole_bytes + shape_.matrices.work_bytes;
  }

 private:
  static void grow(std::int64_t& buffer, std::int64_t bytes) { buffer = std::max(buffer, bytes); }

  void gather(const PartLengths& split) {
    grow(in_, split.packed_bytes(num_bytes(shape_.param_dtype)));
  }

  void add_tp_parts(const BucketShape& bucket) {
    if (computes_)
      grow(gathered_,
           shape_.tp_size * next_part(bucket.tp_replicated * num_bytes(shape_.grad_dtype)));
  }

  void add_sums(const BucketShape& bucket) {
    std::int64_t joined = 0;  // bytes from all instances
    const bool sends_nodes = !(shape_.reads_in_place() && shape_.grad_sum == GradSum::tree);
    if (!shape_.keeps_leaves() && sends_nodes) {
      const std::int64_t width = bucket.tp_replicated > 0 ? 4 : num_bytes(shape_.grad_dtype);
      if (computes_) grow(out_, bucket.split.packed_bytes(width));
      grow(in_, next_part(width * bucket.owned) * senders_);
    }
    switch (shape_.grad_sum) {
      case GradSum::tree:
        joined = joined_bytes_ * bucket.owned + padding(bucket, instances_by_units_);
        if (!shape_.keeps_leaves() || !sends_nodes) break;
        grow(out_, (mine_ == 1 ? bucket.split : bucket.others).packed_bytes(my_bytes_));
        grow(in_, other_bytes_ * bucket.owned + padding(bucket, others_by_units_));
        break;
      case GradSum::binned:
        joined = shape_.instances * next_part(bin_bytes(bucket.owned));
        if (shape_.space == Space::device && shape_.cp > 1 && receives_)
          grow(gathered_, 4 * bucket.owned);
        if (!shape_.keeps_leaves()) break;
        if (mine_ > 0) {
          grow(out_,
               bucket.others.sum([](std::int64_t numel) { return next_part(bin_bytes(numel)); }));
        }
        grow(in_, next_part(bin_bytes(bucket.owned)) * senders_);
        break;
      case GradSum::native:
        joined = next_part(4 * bucket.owned) + 4 * bucket.owned;
        if (shape_.world_size == 1) break;
        grow(out_, bucket.in_order ? 0 : 4 * bucket.owned_by_all);
        grow(in_, 4 * bucket.owned);
        break;
    }
    if (shape_.instances > 1 && bucket.owned > 0) grow(gathered_, joined);
  }

  /// Bytes between the parts from these ranks or instances.
  static std::int64_t padding(const BucketShape& bucket, const ByUnits& messages) {
    std::int64_t bytes = 0;
    for (std::size_t units = 0; units < messages.size(); ++units) {
      const std::int64_t length = 2 * static_cast<std::int64_t>(units) * bucket.owned;
      bytes += messages[units] * (next_part(length) - length);
    }
    return bytes;
  }

  const PredictedStep& shape_;
  const bool computes_;
  const std::int64_t joined_bytes_;  // of one element in the messages between all instances
  const ByUnits instances_by_units_;
  const bool receives_;      // some rank of the instance has a leaf
  const std::int64_t mine_;  // nodes left on this rank's stack
  const InstanceStacks stacks_;
  const std::int64_t my_bytes_;     // of one element in the messages with all nodes of this rank
  const std::int64_t other_bytes_;  // and in those of the other ranks
  const std::int64_t senders_;      // other ranks with a leaf
  ByUnits others_by_units_;         // messages of the other ranks
  std::int64_t out_ = 0, in_ = 0, gathered_ = 0;
};

}  // namespace

std::int64_t whole_param_numel(const PredictedStep& shape) {
  if (shape.stage == 3) return shape.persistent.all;
  if (shape.shares_params()) return shape.rank == 0 ? shape.padded_numel : 0;
  const bool in_shard =
      shape.stage == 0 || (shape.world_size == 1 && shape.shard_numel == shape.padded_numel);
  return in_shard ? 0 : shape.padded_numel;
}

std::int64_t own_leaves(const PredictedStep& shape) { return own_micro_batch_index(shape).count; }

ReduceMemory reduce_memory(const PredictedStep& shape, LeafStacks& stacks) {
  std::int64_t tp_sum = 0;
  for (const BucketShape& bucket : shape.buckets) {
    if (bucket.tp_replicated > 0) tp_sum = std::max(tp_sum, 4 * bucket.range.numel());
  }
  if (own_leaves(shape) == 0) tp_sum = 0;
  return {node_bytes(shape, stacks) + tp_sum, Messages(shape, stacks).total()};
}

}  // namespace zeroproof
