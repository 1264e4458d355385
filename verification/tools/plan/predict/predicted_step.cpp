#include "verification/tools/plan/predict/predicted_step.hpp"

#include <algorithm>
#include <string>

#include "common/base/error.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "common/step/scaled_params.hpp"
#include "common/step/state_buffers.hpp"
#include "verification/tools/plan/predict/state_blocks.hpp"

namespace zeroproof {
namespace {

std::int64_t overlap(const FlatRange& a, const FlatRange& b) {
  return std::max<std::int64_t>(0, std::min(a.end, b.end) - std::max(a.begin, b.begin));
}

/// Joins neighbours; the rank's part of a bucket is split if more than one range is left.
bool is_split(const std::vector<FlatRange>& owned) {
  for (std::size_t i = 1; i < owned.size(); ++i) {
    if (owned[i].begin != owned[i - 1].end) return true;
  }
  return false;
}

void set_model(PredictedStep& shape, const OptimizerSetup& setup) {
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

FlatRange contract_slice(const FlatRange& bucket, int world_size, int rank) {
  const std::int64_t chunks = bucket.numel() / layout_alignment;
  return {bucket.begin + chunks * rank / world_size * layout_alignment,
          bucket.begin + chunks * (rank + 1) / world_size * layout_alignment};
}

void set_contract_buckets(PredictedStep& shape, std::int64_t padded_numel,
                          std::int64_t bucket_numel) {
  ZP_CHECK(bucket_numel >= layout_alignment && bucket_numel % layout_alignment == 0,
           ErrorCode::invalid_argument, "bucket_numel is " + std::to_string(bucket_numel),
           "buckets are split at multiples of " + std::to_string(layout_alignment),
           "use a positive multiple of " + std::to_string(layout_alignment));
  ZP_CHECK(padded_numel >= 0 && padded_numel % layout_alignment == 0, ErrorCode::invalid_argument,
           "padded_numel is " + std::to_string(padded_numel),
           "shards are split at multiples of " + std::to_string(layout_alignment),
           "pass FlatLayout::padded_numel()");
  shape.padded_numel = padded_numel;
  shape.buckets.clear();
  const std::int64_t whole = padded_numel / bucket_numel;
  const std::int64_t rest = whole * bucket_numel;
  if (whole > 0) shape.buckets.push_back({.range = {0, bucket_numel}, .count = whole});
  if (rest < padded_numel) shape.buckets.push_back({.range = {rest, padded_numel}});
  set_contract_rank(shape, shape.rank);
}

void set_contract_rank(PredictedStep& shape, int rank) {
  shape.rank = rank;
  shape.shard_numel = 0;
  for (BucketShape& bucket : shape.buckets) {
    const std::int64_t numel = bucket.range.numel();
    bucket.owned = contract_slice(bucket.range, shape.world_size, rank).numel();
    bucket.owned_by_all = numel;
    bucket.owners = std::min<std::int64_t>(numel / layout_alignment, shape.world_size);
    bucket.others = {.numel = numel - bucket.owned};  // parts are multiples of 1024
    shape.shard_numel += bucket.count * bucket.owned;
  }
}

void add_tp_replicated(PredictedStep& shape, const FlatRange& elements) {
  auto at = std::lower_bound(
      shape.buckets.begin(), shape.buckets.end(), elements.begin,
      [](const BucketShape& bucket, std::int64_t begin) { return bucket.all().end <= begin; });
  for (; at != shape.buckets.end() && at->range.begin < elements.end; ++at) {
    at->tp_replicated_sum += overlap(at->all(), elements);
    at->tp_replicated = at->tp_replicated_sum / at->count;
  }
}

void set_buckets(PredictedStep& shape, const ShardMap& shards) {
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
      if (!owned.empty())
        bucket.in_order = bucket.in_order && !is_split(owned) && owned.front().begin == end;
      if (!owned.empty()) end = owned.back().end;
      if (rank != shape.rank) {
        bucket.others.add(numel);
        if (is_split(owned)) bucket.split.add(numel);
        continue;
      }
      bucket.owned = numel;
      if (is_split(owned)) bucket.split_here = numel;
    }
    shape.buckets.push_back(bucket);
  }
}

void put_on_device(PredictedStep& shape, bool enqueued) {
  shape.space = Space::device;
  shape.enqueued = enqueued;
  shape.windows = Windows::off;
}

namespace {

template <class Settings>
void set_blocks(PredictedStep& shape, const Settings& settings) {
  const ParamScaling& scaling = settings.scaling;
  shape.scale_blocks = blocks_of(settings).num_blocks();
  shape.scale_slots = keeps_history(scaling) ? scaling.history : 0;
  shape.columnwise = scaling.columnwise;
  shape.column_blocks = has_own_columns(scaling) ? column_blocks_of(settings).num_blocks() : 0;
}

}  // namespace

void set_scales(PredictedStep& shape, const StepSettings& undistributed) {
  set_blocks(shape, undistributed);
}

void set_scales(PredictedStep& shape, const OptimizerSetup& setup) { set_blocks(shape, setup); }

std::int64_t PredictedStep::state_bytes(std::int64_t elements, std::int64_t blocks) const {
  if (state_formats.empty()) return 4 * state_buffers * elements;
  std::int64_t bytes = 4 * scaled_buffers() * blocks;
  for (const StateFormat format : state_formats) bytes += num_bytes(dtype_of(format)) * elements;
  return bytes;
}

std::int64_t PredictedStep::scaled_buffers() const {
  return std::ranges::count_if(state_formats,
                               [](StateFormat format) { return has_scales(format); });
}

void set_state_formats(PredictedStep& shape, const OptimizerHyper& hyper,
                       const StateFormats& formats) {
  shape.master_bytes = formats.master == MasterFormat::bf16 ? 2 : 4;
  shape.state_formats.clear();
  for (const StateSlot slot : kept_slots(hyper)) shape.state_formats.push_back(formats.of(slot));
}

int state_buffer_count(const OptimizerHyper& hyper) {
  return static_cast<int>(kept_slots(hyper).size());
}

PredictedStep predicted_step(const OptimizerSetup& setup, const LayeredModel* model) {
  ZP_CHECK(setup.layout != nullptr && setup.shards != nullptr && setup.comm != nullptr,
           ErrorCode::invalid_argument, "the setup has no layout, shard map or communicator",
           "bytes depend on all three", "set them in OptimizerSetup");
  PredictedStep shape;
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
  shape.windows = setup.windows;
  shape.param_dtype = setup.param_dtype;
  shape.grad_dtype = setup.grad_dtype;
  shape.micro_batches = setup.micro_batches;
  shape.state_buffers = state_buffer_count(setup.hyper);
  shape.trust_ratio = traits_of(setup.hyper.rule).trust_ratio;
  shape.has_matrices = traits_of(setup.hyper.rule).matrices;
  if (shape.has_matrices) {
    const PredictedMatrices matrices = predicted_matrices(setup);
    shape.matrices = predict_matrices(matrices)[matrices.ranks == 1 ? 0 : shape.rank];
  }
  shape.norm = setup.hyper.norm;
  shape.clip_groups = setup.clip_groups.count();
  shape.counts_tokens = setup.loss_reduction == LossReduction::tokens;
  shape.skips_missing = setup.missing_grad == MissingGrad::skip;
  if (has_scales(setup.param_dtype)) set_scales(shape, setup);
  set_buckets(shape, *setup.shards);
  set_model(shape, setup);
  const std::vector<FlatRange> ranges = setup.stage == 0
                                            ? std::vector<FlatRange>{{0, shape.padded_numel}}
                                            : setup.shards->shard(shape.rank);
  set_state_formats(shape, setup.hyper, setup.state_formats);
  if (shape.scaled_buffers() > 0) set_state_blocks(shape, setup, ranges);
  shape.offload =
      offload_shape(*setup.layout, ranges, setup.offload, setup.groups, shape.scaled_buffers() > 0);
  const MapOwnership ownership(*setup.shards);
  const std::vector<FlatRange> units = model == nullptr ? std::vector<FlatRange>{} : model->units();
  const std::vector<int> visits = model == nullptr ? std::vector<int>{} : model->visits();
  set_units({&shape}, *setup.layout, ownership, units, visits, setup.persistent_numel);
  return shape;
}

}  // namespace zeroproof
