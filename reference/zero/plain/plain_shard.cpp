// The work of a rank on its shard, in every stage: from the sum of gradients to new parameters,
// without elements of another rank [ZeRO:local]. Only three numbers are global: found_inf, the
// norm, and the step.

#include <string>

#include "common/base/error.hpp"
#include "reference/norm_form.hpp"
#include "reference/operations.hpp"
#include "reference/rule.hpp"
#include "reference/update_operations.hpp"
#include "reference/zero/plain/plain_zero.hpp"

namespace zeroproof::reference {
namespace {

void check_plain(const PlainSetup& setup) {
  ZP_CHECK(setup.world_size >= 1 && setup.micro_batches >= 1, ErrorCode::invalid_argument,
           std::to_string(setup.world_size) + " ranks for " + std::to_string(setup.micro_batches) +
               " micro-batches",
           "a step needs at least one of each", "use 1 or more of both");
  ZP_CHECK(setup.hyper.rule == UpdateRule::adamw && !setup.hyper.amsgrad && !setup.hyper.clip_value,
           ErrorCode::invalid_argument, "the settings of a plain stage are not those of adamw",
           "a plain stage has two moments and clips by the norm only",
           "use make_distributed_optimizer for other rules and options");
  std::int64_t end = 0;
  for (const FlatRange& layer : setup.layers) {
    ZP_CHECK(layer.begin == end && layer.numel() >= 0, ErrorCode::invalid_argument,
             "a layer starts at " + std::to_string(layer.begin) + ", the previous one ended at " +
                 std::to_string(end),
             "every parameter belongs to one layer", "pass contiguous layers from 0 on");
    end = layer.end;
  }
  ZP_CHECK(end == setup.numel, ErrorCode::invalid_argument,
           "the layers cover " + std::to_string(end) + " of " + std::to_string(setup.numel) +
               " parameters",
           "every parameter belongs to one layer", "pass layers that cover the model");
}

/// Rank r's part of [0, numel): whole chunks of 1024, so that the norm is summed chunk by chunk
/// (R12).
FlatRange shard_of(std::int64_t numel, std::int64_t world_size, std::int64_t rank) {
  const std::int64_t chunks = (numel + norm_chunk_numel - 1) / norm_chunk_numel;
  return {std::min(numel, chunks * rank / world_size * norm_chunk_numel),
          std::min(numel, chunks * (rank + 1) / world_size * norm_chunk_numel)};
}

}  // namespace

PlainZero::PlainZero(const PlainSetup& setup, const FullState& initial)
    : setup_(setup),
      everything_{0, setup.numel},
      applied_steps_(initial.applied_steps),
      scaler_(initial.scaler) {
  check_plain(setup);
  check_loaded(initial, setup.hyper, setup.numel);
  for (int rank = 0; rank < setup.world_size; ++rank) {
    const FlatRange range = shard_of(setup.numel, setup.world_size, rank);
    const auto slice = [&](Span<const float> all) {
      return std::vector<float>(all.begin() + range.begin, all.begin() + range.end);
    };
    shards_.push_back({range,
                       {},
                       slice(initial.master),
                       slice(initial.slots[StateSlot::exp_avg]),
                       slice(initial.slots[StateSlot::exp_avg_sq]),
                       {}});
    shards_.back().param.resize(range.numel());
    cast_to_bf16({}, shards_.back().master, shards_.back().param);
  }
}

bool PlainZero::update_shards() {
  const StepScalars scalars =
      step_scalars(setup_.hyper, applied_steps_ + 1, scaler_.log2_scale, setup_.micro_batches);

  bool found_inf = false;  // an OR over all ranks, so that all of them skip together
  for (PlainShard& shard : shards_) {
    found_inf = unscale({}, scalars.inv_scale, shard.grad, shard.grad) || found_inf;
  }
  scaler_ = loss_scaler_update(setup_.scaler, scaler_, found_inf);
  if (found_inf) return false;

  PartialNorm norm;  // integers, so the order of ranks has no effect (R12)
  for (const PlainShard& shard : shards_) accumulate(setup_.hyper.norm, shard.grad, norm);
  const float coef = clip_coef(finish(setup_.hyper.norm, norm), setup_.hyper.max_norm);

  for (PlainShard& shard : shards_) {
    clip({}, coef, shard.grad, shard.grad);
    adamw_update({}, {false, setup_.hyper.maximize}, scalars, shard.grad, shard.master,
                 shard.exp_avg, shard.exp_avg_sq, {});
    cast_to_bf16({}, shard.master, shard.param);
  }
  applied_steps_ += 1;
  return true;
}

}  // namespace zeroproof::reference
