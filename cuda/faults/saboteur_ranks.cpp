// Faults of what ranks share: groups and schedules, TP parts, layouts, units of stage 3.

#include <algorithm>
#include <cstring>
#include <list>
#include <mutex>

#include "cuda/faults/saboteur.hpp"
#include "cuda/host/step_scalars.hpp"
#include "cuda/micro_batches.hpp"
#include "cuda/production_optimizer.hpp"
#include "cuda/step_ranks.hpp"

namespace zeroproof::cuda {
namespace {

/// A shard map for one rank less. The setup keeps a pointer, so it stays.
const ShardMap* of_smaller_world(const OptimizerSetup& setup) {
  static std::mutex mutex;
  static std::list<ShardMap> maps;
  const std::lock_guard lock(mutex);
  const std::int64_t bucket = setup.shards->buckets().front().numel();
  return &maps.emplace_back(setup.layout->padded_numel(), setup.comm->world_size() - 1, bucket);
}

}  // namespace

OptimizerSetup Saboteur::believed(OptimizerSetup setup) {
  const std::string_view fault = setup.exec.fault;
  if (fault == "Z22-default-differs") setup.hyper.eps *= 100;
  if (fault == "Z92-shards-of-another-world") setup.shards = of_smaller_world(setup);
  std::vector<GroupRule>& rules = setup.groups.rules;
  for (GroupRule& rule : rules) {
    if (fault == "no-decay-group-decays") rule.weight_decay_mult = 1;
    if (fault != "one-lr-for-all-groups") continue;
    rule.lr_mult = 1;
    rule.lr.reset();
    rule.min_lr.reset();
  }
  if (fault == "Z98-group-order-per-rank" && setup.comm->rank() + 1 == setup.comm->world_size()) {
    std::ranges::reverse(rules);
    for (int& group : setup.groups.of_tensor) group = group == 0 ? 0 : setup.groups.count() - group;
  }
  return setup;
}

/// The scalars of step t of other schedules.
void Saboteur::recompute_scheduled(const ParamGroups& groups, std::int64_t t) {
  const OptimizerSetup& setup = victim_.setup_;
  TensorSteps& steps = victim_.steps_;
  for (std::size_t group = 0; group < steps.scalars_.size(); ++group) {
    const OptimizerHyper hyper =
        hyper_of(groups, setup.hyper, static_cast<int>(group), t, setup.micro_batches);
    steps.scalars_[group] = host::step_scalars(hyper, static_cast<std::int64_t>(steps.applied_steps_) + 1,
                                               victim_.scaler_.log2_scale, setup.micro_batches);
  }
}

/// Adds what the TP ranks have of a replicated tensor after each has summed its own parts over micro-batches.
void Saboteur::add_tp_parts() {
  const OptimizerSetup& setup = victim_.setup_;
  if (setup.tp == nullptr) return;
  const Span<float> sum = victim_.grad_->as<float>();
  std::vector<std::vector<float>> of_rank(static_cast<std::size_t>(tp_ranks(setup)),
                                          std::vector<float>(sum.size()));
  std::vector<Span<std::byte>> receive;
  for (std::vector<float>& values : of_rank) receive.push_back(std::as_writable_bytes(Span<float>(values)));
  std::ranges::copy(sum, of_rank[static_cast<std::size_t>(tp_rank(setup))].begin());
  setup.tp->all_gather(receive[static_cast<std::size_t>(tp_rank(setup))], receive);
  for (const Piece& piece : setup.layout->pieces(victim_.ranges_)) {
    if (!tp_replicated(setup, piece.tensor)) continue;
    for (auto i = static_cast<std::size_t>(piece.local_begin);
         i < static_cast<std::size_t>(piece.local_begin + piece.numel); ++i) {
      sum[i] = of_rank[0][i];
      for (std::size_t r = 1; r < of_rank.size(); ++r) sum[i] += of_rank[r][i];
    }
  }
}

/// Layers see the shard as it was before the last cast; called again, they see the present one.
void Saboteur::swap_params() {
  const TensorView shard = victim_.param_shard_->view();
  if (stale_shard_.size() != static_cast<std::size_t>(shard.num_bytes())) return;
  auto* bytes = static_cast<std::byte*>(shard.data);
  std::swap_ranges(stale_shard_.begin(), stale_shard_.end(), bytes);
}

/// Of rows that do not divide by the world, a rank updates as many as if none were left over.
bool Saboteur::update_without_leftover(const Exec& exec, Piece piece) {
  const OptimizerSetup& setup = victim_.setup_;
  const TensorSlot& slot = setup.layout->tensors()[static_cast<std::size_t>(piece.tensor)];
  const std::int64_t world = setup.comm->world_size();
  const std::int64_t rows = slot.shape.empty() ? 1 : slot.shape.front();
  const std::int64_t inner = slot.numel / rows;
  const std::int64_t begin = setup.comm->rank() * ((rows + world - 1) / world) * inner;
  piece.numel = std::clamp(begin + rows / world * inner - piece.tensor_begin, std::int64_t{0}, piece.numel);
  if (piece.numel == 0) return true;
  const auto part = [&](const CountedBuffer& buffer) {
    return buffer->as<float>().subspan(static_cast<std::size_t>(piece.local_begin),
                                       static_cast<std::size_t>(piece.numel));
  };
  victim_.state_.update(victim_.ops_, exec, setup.hyper, victim_.steps_.scalars(piece), piece,
                        part(victim_.grad_), part(victim_.master_));
  return true;
}

}  // namespace zeroproof::cuda
