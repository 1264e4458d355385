#include "verification/cases/case_layout.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "common/base/error.hpp"
#include "common/layout/tp_cut.hpp"

namespace zeroproof::verification {
namespace {

/// The elements of TP-replicated tensors in the buckets of a TP rank, by bucket, without buckets
/// that have none: {tensor, first element, elements}.
std::vector<std::vector<std::array<std::int64_t, 3>>> replicated_parts(
    const CaseLayout::Local& local) {
  std::vector<std::vector<std::array<std::int64_t, 3>>> parts;
  for (const FlatRange& bucket : local.shards.buckets()) {
    parts.emplace_back();
    for (const Piece& piece : local.layout.pieces({bucket})) {
      if (!local.placement[piece.tensor].tp_replicated) continue;
      parts.back().push_back({piece.tensor, piece.tensor_begin, piece.numel});
    }
    if (parts.back().empty()) parts.pop_back();
  }
  return parts;
}

/// The parts of a replicated tensor's gradient are added bucket by bucket. An uneven split can make
/// this impossible (R18): where the preceding tensors have different sizes, so do the bucket
/// boundaries.
void require_same_buckets(const CaseLayout::Local& first, const CaseLayout::Local& other,
                          int tp_rank) {
  ZP_CHECK(replicated_parts(first) == replicated_parts(other), ErrorCode::config,
           "the buckets of TP rank " + std::to_string(tp_rank) +
               " hold other elements of replicated tensors than those of TP rank 0",
           "the model is split unevenly, and TP ranks add their parts of such tensors bucket by "
           "bucket, rule R18",
           "use another --bucket, or a hidden width divisible by the number of TP ranks");
}

}  // namespace

CaseLayout::CaseLayout(const Experiment& experiment, const CaseSpec& spec, int world_size)
    : grid_(spec.place.grid_of(world_size)), instances_(spec.place.instances) {
  for (int tp_rank = 0; tp_rank < grid_.tp; ++tp_rank) {
    FlatLayout layout = experiment.layout();
    std::vector<TensorPlacement> placement;
    std::vector<TensorMatrix> matrices;
    if (grid_.tp > 1) {
      TpModel model = experiment.tp_model(grid_.tp, tp_rank);
      layout = FlatLayout(model.params);
      placement = std::move(model.placement);
      matrices = matrices_of(experiment.layout());
    }
    ShardMap shards = make_shard_map(spec.place.layout, layout, shard_ranks(), spec.bucket_numel,
                                     experiment.group_of_tensor());
    locals_.push_back(std::make_unique<const Local>(
        Local{std::move(layout), std::move(placement), std::move(shards), std::move(matrices)}));
    if (tp_rank > 0) require_same_buckets(local(0), local(tp_rank), tp_rank);
  }
}

RankCoords CaseLayout::place(int rank) const {
  const int data_rank = grid_.data_rank(rank);
  return {data_rank, data_rank % grid_.cp, grid_.tp_rank(rank), data_rank / shard_ranks(),
          data_rank % shard_ranks()};
}

std::int64_t CaseLayout::global_index(int tp_rank, const Piece& piece, std::int64_t offset) const {
  const std::vector<TensorPlacement>& placement = local(tp_rank).placement;
  if (placement.empty()) return piece.global_begin + offset;
  return placement[piece.tensor].global(piece.tensor_begin + offset);
}

std::int64_t CaseLayout::run_numel(int tp_rank, const Piece& piece, std::int64_t offset) const {
  const std::vector<TensorPlacement>& placement = local(tp_rank).placement;
  const std::int64_t rest = piece.numel - offset;
  if (placement.empty()) return rest;
  const std::int64_t row = placement[piece.tensor].row_numel;
  return std::min(rest, row - (piece.tensor_begin + offset) % row);
}

std::vector<float> CaseLayout::to_local(int tp_rank, Span<const float> whole) const {
  const Local& here = local(tp_rank);
  const std::int64_t padded = here.layout.padded_numel();
  std::vector<float> result(padded, std::numeric_limits<float>::quiet_NaN());
  for (const Piece& piece : here.layout.pieces({{0, padded}})) {
    for_runs(tp_rank, piece, [&](std::int64_t to, std::int64_t from, std::int64_t numel) {
      std::copy_n(whole.begin() + from, numel, result.begin() + to);
    });
  }
  return result;
}

std::vector<std::int64_t> CaseLayout::own_micro_batches(int rank, std::int64_t micro_batches,
                                                        int stage, MicroBatchOrder order) const {
  const bool strided =
      order == MicroBatchOrder::by_stage ? stage >= 2 : order == MicroBatchOrder::strided;
  const std::int64_t holders = grid_.dp;
  const std::int64_t holder = grid_.place(rank).dp;
  std::vector<std::int64_t> own;
  for (std::int64_t j = 0; j < micro_batches; ++j) {
    const bool block =
        j >= micro_batches * holder / holders && j < micro_batches * (holder + 1) / holders;
    if (strided ? j % holders == holder : block) own.push_back(j);
  }
  return own;
}

}  // namespace zeroproof::verification
