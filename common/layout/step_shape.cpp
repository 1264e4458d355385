#include "common/layout/step_shape.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "common/step/distributed_optimizer.hpp"

namespace zeroproof {
namespace {

std::int64_t overlap(const FlatRange& a, const FlatRange& b) {
  return std::max<std::int64_t>(0, std::min(a.end, b.end) - std::max(a.begin, b.begin));
}

/// This rank's slice of a bucket of the contract's layout.
FlatRange contract_slice(const FlatRange& bucket, int world_size, int rank) {
  const std::int64_t chunks = bucket.numel() / layout_alignment;
  return {bucket.begin + chunks * rank / world_size * layout_alignment,
          bucket.begin + chunks * (rank + 1) / world_size * layout_alignment};
}

void check_visits(const std::vector<FlatRange>& units, const std::vector<int>& visits) {
  for (const int unit : visits) {
    ZP_CHECK(unit >= 0 && unit < static_cast<int>(units.size()), ErrorCode::invalid_argument,
             "a visit names unit " + std::to_string(unit) + " of " + std::to_string(units.size()),
             "every visit runs a unit that exists", "pass LayeredModel::visits()");
  }
}

/// Joins neighbours; the rank's part of a bucket is split if more than one range is left.
bool is_split(const std::vector<FlatRange>& owned) {
  for (std::size_t i = 1; i < owned.size(); ++i) {
    if (owned[i].begin != owned[i - 1].end) return true;
  }
  return false;
}

/// Collects the stretches of every rank, in the order in which they come.
class Stretches {
 public:
  explicit Stretches(int world_size) : ranks_(static_cast<std::size_t>(world_size)) {}

  /// Elements from place `from` of the rank's shard go to place `to`.
  void add(int rank, std::int64_t from, std::int64_t to, std::int64_t numel) {
    OfRank& mine = ranks_[static_cast<std::size_t>(rank)];
    if (mine.count == 0 || mine.from_end != from || mine.to_end != to) ++mine.count;
    mine.from_end = from + numel;
    mine.to_end = to + numel;
    mine.numel += numel;
  }
  GatherShape result(const FlatRange& range, int rank) const {
    GatherShape shape{range, ranks_[static_cast<std::size_t>(rank)].numel, 0, 0, 0};
    for (const OfRank& of_rank : ranks_) {
      shape.all += of_rank.numel;
      shape.owners += of_rank.numel > 0 ? 1 : 0;
      if (of_rank.count > 1) shape.split += of_rank.numel;
    }
    return shape;
  }

 private:
  struct OfRank {
    std::int64_t from_end = 0, to_end = 0, numel = 0, count = 0;
  };
  std::vector<OfRank> ranks_;
};

void set_model(StepShape& shape, const OptimizerSetup& setup) {
  const FlatLayout& layout = *setup.layout;
  shape.numel = layout.numel();
  shape.num_tensors = static_cast<std::int64_t>(layout.tensors().size());
  shape.scalar_sets = shape.skips_missing ? shape.num_tensors : setup.groups.count();
  for (std::size_t i = 0; shape.tp_size > 1 && i < layout.tensors().size(); ++i) {
    const TensorSlot& slot = layout.tensors()[i];
    if (!setup.placement.empty() && !setup.placement[i].tp_replicated) continue;
    add_tp_replicated(shape, {slot.begin, slot.begin + slot.numel});
  }
}

}  // namespace

std::int64_t contract_slice_numel(std::int64_t numel, int world_size, int rank) {
  return contract_slice({0, numel}, world_size, rank).numel();
}

void set_contract_buckets(StepShape& shape, std::int64_t padded_numel, std::int64_t bucket_numel) {
  ZP_CHECK(bucket_numel >= layout_alignment && bucket_numel % layout_alignment == 0,
           ErrorCode::invalid_argument, "bucket_numel is " + std::to_string(bucket_numel),
           "buckets are cut at multiples of " + std::to_string(layout_alignment),
           "use a positive multiple of " + std::to_string(layout_alignment));
  ZP_CHECK(padded_numel >= 0 && padded_numel % layout_alignment == 0, ErrorCode::invalid_argument,
           "padded_numel is " + std::to_string(padded_numel),
           "shards are cut at multiples of " + std::to_string(layout_alignment),
           "pass FlatLayout::padded_numel()");
  shape.padded_numel = padded_numel;
  shape.buckets.clear();
  shape.shard_numel = 0;
  for (std::int64_t begin = 0; begin < padded_numel; begin += std::min(bucket_numel, padded_numel - begin)) {
    const FlatRange range{begin, begin + std::min(bucket_numel, padded_numel - begin)};
    const std::int64_t owned = contract_slice(range, shape.world_size, shape.rank).numel();
    const std::int64_t owners = std::min<std::int64_t>(range.numel() / layout_alignment, shape.world_size);
    BucketShape bucket{range, owned, range.numel(), owners};
    bucket.quads = (range.numel() - owned) / 4;  // parts are multiples of 1024
    shape.buckets.push_back(bucket);
    shape.shard_numel += owned;
  }
}

void add_tp_replicated(StepShape& shape, const FlatRange& elements) {
  auto at = std::lower_bound(
      shape.buckets.begin(), shape.buckets.end(), elements.begin,
      [](const BucketShape& bucket, std::int64_t begin) { return bucket.range.end <= begin; });
  for (; at != shape.buckets.end() && at->range.begin < elements.end; ++at) {
    at->tp_replicated += overlap(at->range, elements);
  }
}

void set_buckets(StepShape& shape, const ShardMap& shards) {
  shape.padded_numel = shards.padded_numel();
  shape.shard_numel = shards.shard_numel(shape.rank);
  shape.buckets.clear();
  for (std::size_t b = 0; b < shards.buckets().size(); ++b) {
    BucketShape bucket;
    bucket.range = shards.buckets()[b];
    std::int64_t end = bucket.range.begin;
    for (int rank = 0; rank < shards.world_size(); ++rank) {
      const std::vector<FlatRange>& owned = shards.owned(b, rank);
      const std::int64_t numel = shards.owned_numel(b, rank);
      bucket.owned_by_all += numel;
      bucket.owners += numel > 0 ? 1 : 0;
      if (is_split(owned)) bucket.split += numel;
      if (!owned.empty()) bucket.in_order = bucket.in_order && !is_split(owned) && owned.front().begin == end;
      if (!owned.empty()) end = owned.back().end;
      if (rank != shape.rank) {
        bucket.quads += (numel + 3) / 4;
        continue;
      }
      bucket.owned = numel;
      if (is_split(owned)) bucket.split_here = numel;
    }
    shape.buckets.push_back(bucket);
  }
}

void ContractOwnership::parts(const FlatRange& stretch, const Use& use) const {
  for (std::int64_t at = stretch.begin; at < stretch.end;) {
    const std::int64_t bucket_begin = at / bucket_numel_ * bucket_numel_;
    const FlatRange bucket{bucket_begin, std::min(bucket_begin + bucket_numel_, padded_numel_)};
    const std::int64_t chunks = bucket.numel() / layout_alignment;
    const std::int64_t chunk = (at - bucket.begin) / layout_alignment;
    // The rank r with floor(chunks r / world) <= chunk < floor(chunks (r + 1) / world).
    const auto rank = static_cast<int>(((chunk + 1) * world_size_ + chunks - 1) / chunks - 1);
    const FlatRange slice = contract_slice(bucket, world_size_, rank);
    const std::int64_t end = std::min(slice.end, stretch.end);
    const std::int64_t before =
        bucket_begin / bucket_numel_ * contract_slice_numel(bucket_numel_, world_size_, rank);
    use(rank, {at, end}, before + at - slice.begin);
    at = end;
  }
}

MapOwnership::MapOwnership(const ShardMap& shards) {
  for (int rank = 0; rank < shards.world_size(); ++rank) {
    std::int64_t in_shard = 0;
    for (const FlatRange& range : shards.shard(rank)) {
      owned_.push_back({range, rank, in_shard});
      in_shard += range.numel();
    }
  }
  std::sort(owned_.begin(), owned_.end(),
            [](const Owned& a, const Owned& b) { return a.range.begin < b.range.begin; });
}

void MapOwnership::parts(const FlatRange& stretch, const Use& use) const {
  auto at = std::lower_bound(owned_.begin(), owned_.end(), stretch.begin,
                             [](const Owned& owned, std::int64_t begin) { return owned.range.end <= begin; });
  for (; at != owned_.end() && at->range.begin < stretch.end; ++at) {
    const FlatRange part{std::max(at->range.begin, stretch.begin), std::min(at->range.end, stretch.end)};
    use(at->rank, part, at->in_shard + part.begin - at->range.begin);
  }
}

void set_units(const std::vector<StepShape*>& ranks, const FlatLayout& layout, const Ownership& ownership,
               const std::vector<FlatRange>& units, const std::vector<int>& visits,
               std::int64_t persistent_numel) {
  check_visits(units, visits);
  for (StepShape* shape : ranks) {
    shape->visits = visits;
    shape->units.assign(units.size(), {});
    for (std::size_t u = 0; u < units.size(); ++u) shape->units[u].range = units[u];
    shape->stays.assign(units.size(), false);
    shape->persistent = {};
  }
  if (ranks.empty() || ranks.front()->stage != 3) return;  // nothing is gathered unit by unit
  Stretches persistent(ranks.front()->world_size);
  std::int64_t persistent_end = 0;
  auto slot = layout.tensors().begin();
  /// Tensors up to `end`; true if one of them is persistent.
  const auto take_until = [&](std::int64_t end, Stretches& unit) {
    bool has_persistent = false;
    for (; slot != layout.tensors().end() && slot->begin < end; ++slot) {
      if (slot->numel == 0) continue;
      const bool stays = slot->numel <= persistent_numel;
      has_persistent = has_persistent || stays;
      const std::int64_t shift = stays ? persistent_end - slot->begin : 0;
      Stretches& target = stays ? persistent : unit;
      ownership.parts({slot->begin, slot->begin + slot->numel},
                      [&](int rank, const FlatRange& part, std::int64_t in_shard) {
                        target.add(rank, in_shard, part.begin + shift, part.numel());
                      });
      if (stays) persistent_end += slot->numel;
    }
    return has_persistent;
  };
  for (std::size_t u = 0; u < units.size(); ++u) {
    Stretches unit(ranks.front()->world_size);
    const bool has_persistent = take_until(units[u].end, unit);
    for (StepShape* shape : ranks) {
      shape->units[u] = unit.result(units[u], shape->rank);
      shape->stays[u] = has_persistent && shape->units[u].all == 0;
    }
  }
  Stretches rest(ranks.front()->world_size);
  take_until(layout.padded_numel(), rest);  // without units: all tensors
  for (StepShape* shape : ranks) shape->persistent = persistent.result({0, 0}, shape->rank);
}

int state_buffer_count(const OptimizerHyper& hyper) {
  switch (hyper.rule) {
    case UpdateRule::adamw:
    case UpdateRule::adam:
      return hyper.amsgrad ? 3 : 2;
    case UpdateRule::sgd:
      return hyper.momentum != 0 ? 1 : 0;
    case UpdateRule::sgd_ema:
      return 1;
  }
  return 0;
}

StepShape step_shape(const OptimizerSetup& setup, const LayeredModel* model) {
  ZP_CHECK(setup.layout != nullptr && setup.shards != nullptr && setup.comm != nullptr,
           ErrorCode::invalid_argument, "the setup has no layout, shard map or communicator",
           "bytes depend on all three", "set them in OptimizerSetup");
  StepShape shape;
  shape.stage = setup.stage;
  shape.world_size = setup.comm->world_size();
  shape.rank = setup.comm->rank();
  shape.instances = setup.replicas == nullptr ? 1 : setup.replicas->world_size();
  shape.instance = setup.replicas == nullptr ? 0 : setup.replicas->rank();
  shape.tp_size = setup.tp == nullptr ? 1 : setup.tp->world_size();
  shape.cp = setup.cp;
  shape.order = setup.order;
  shape.grad_sum = setup.grad_sum;
  shape.overlap = setup.overlap;
  shape.param_dtype = setup.param_dtype;
  shape.leaf_dtype = setup.leaf_dtype;
  shape.micro_batches = setup.micro_batches;
  shape.state_buffers = state_buffer_count(setup.hyper);
  shape.norm = setup.hyper.norm;
  shape.counts_tokens = setup.loss_reduction == LossReduction::tokens;
  shape.skips_missing = setup.missing_grad == MissingGrad::skip;
  set_buckets(shape, *setup.shards);
  set_model(shape, setup);
  const MapOwnership ownership(*setup.shards);
  const std::vector<FlatRange> units = model == nullptr ? std::vector<FlatRange>{} : model->units();
  const std::vector<int> visits = model == nullptr ? std::vector<int>{} : model->visits();
  set_units({&shape}, *setup.layout, ownership, units, visits, setup.persistent_numel);
  return shape;
}

std::vector<std::int64_t> micro_batches_of(const StepShape& shape, std::int64_t data_rank) {
  const std::int64_t ranks = shape.data_ranks() / shape.cp;  // that hold different micro-batches
  const std::int64_t rank = data_rank / shape.cp;
  const std::int64_t m = shape.micro_batches;
  const bool strided = shape.strided();
  const std::int64_t first = strided ? rank : m * rank / ranks;
  const std::int64_t end = strided ? m : m * (rank + 1) / ranks;
  std::vector<std::int64_t> own;
  for (std::int64_t j = first; j < end; j += strided ? ranks : 1) own.push_back(j);
  return own;
}

std::vector<std::int64_t> leaves_of(const StepShape& shape, std::int64_t data_rank) {
  std::vector<std::int64_t> leaves = micro_batches_of(shape, data_rank);
  for (std::int64_t& leaf : leaves) leaf = leaf * shape.cp + data_rank % shape.cp;
  return leaves;
}

std::int64_t NodeCount::push(std::int64_t leaf) {
  std::int64_t combined = 0;
  Node top{0, leaf};
  while (!stack_.empty() && top.index % 2 == 1 && stack_.back().level == top.level &&
         stack_.back().index == top.index - 1) {
    stack_.pop_back();
    top = {top.level + 1, top.index / 2};
    ++combined;
  }
  stack_.push_back(top);
  return combined;
}

StackUse stack_use(const std::vector<std::int64_t>& leaves) {
  NodeCount stack;
  StackUse use;
  for (const std::int64_t leaf : leaves) {
    use.peak = std::max(use.peak, stack.size() + 1);
    stack.push(leaf);
  }
  use.left = stack.size();
  return use;
}

std::int64_t instance_nodes(const StepShape& shape, int instance) {
  std::vector<std::int64_t> all;
  for (int rank = 0; rank < shape.world_size; ++rank) {
    const auto leaves = leaves_of(shape, std::int64_t{instance} * shape.world_size + rank);
    all.insert(all.end(), leaves.begin(), leaves.end());
  }
  std::sort(all.begin(), all.end());
  return stack_use(all).left;
}

}  // namespace zeroproof
