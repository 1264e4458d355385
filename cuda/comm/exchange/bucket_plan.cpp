#include "cuda/comm/exchange/bucket_plan.hpp"

#include <algorithm>
#include <utility>

#include "cuda/comm/exchange/step_ranks.hpp"

namespace zeroproof::cuda {
namespace {

/// Of the tensors that are partitioned over TP ranks, or of the others.
std::vector<Piece> replicated_pieces(const OptimizerSetup& setup, const FlatRange& range,
                                     bool replicated) {
  std::vector<Piece> pieces = setup.layout->pieces({range});
  std::erase_if(
      pieces, [&](const Piece& piece) { return tp_replicated(setup, piece.tensor) != replicated; });
  if (!replicated) return pieces;
  std::int64_t local = 0;
  for (Piece& piece : pieces) {
    piece.local_begin = local;
    local += piece.numel;
  }
  return pieces;
}

}  // namespace

/// Adjacent ranges count as one.
RankPart BucketPlan::part(int rank) const {
  RankPart part;
  for (const FlatRange& owned : shards->owned(index, rank)) {
    part.numel += owned.numel();
    if (!part.ranges.empty() && part.ranges.back().end == owned.begin) {
      part.ranges.back().end = owned.end;
    } else {
      part.ranges.push_back(owned);
    }
  }
  return part;
}

std::vector<RankPart> BucketPlan::parts() const {
  std::vector<RankPart> all;
  for (int rank = 0; rank < shards->world_size(); ++rank) all.push_back(part(rank));
  return all;
}

std::vector<FlatRange> state_ranges(const OptimizerSetup& setup) {
  if (setup.stage > 0) return setup.shards->shard(setup.comm->rank());
  if (setup.layout->padded_numel() == 0) return {};
  return {{0, setup.layout->padded_numel()}};
}

std::int64_t total_numel(const std::vector<FlatRange>& ranges) {
  std::int64_t numel = 0;
  for (const FlatRange& range : ranges) numel += range.numel();
  return numel;
}

std::vector<BucketPlan> plan_buckets(const OptimizerSetup& setup) {
  std::vector<BucketPlan> plans;
  std::int64_t local = 0;
  for (std::size_t bucket = 0; bucket < setup.shards->buckets().size(); ++bucket) {
    const FlatRange range = setup.shards->buckets()[bucket];
    BucketPlan plan;
    plan.shards = setup.shards;
    plan.index = bucket;
    plan.range = range;
    plan.own = plan.part(setup.comm->rank());
    const std::vector<Piece> replicated = replicated_pieces(setup, range, true);
    std::int64_t replicated_numel = 0;
    for (const Piece& piece : replicated) replicated_numel += piece.numel;
    plan.replicated_numel = replicated_numel;
    plan.all = host::PieceLoop(setup.layout->pieces({range}));
    plan.mine = host::PieceLoop(setup.layout->pieces(plan.own.ranges));
    plan.replicated = host::PieceLoop(replicated);
    if (!replicated.empty())
      plan.unreplicated = host::PieceLoop(replicated_pieces(setup, range, false));
    plan.local_begin = local;
    plan.whole = setup.stage == 0;
    local += plan.own.numel;
    plans.push_back(std::move(plan));
  }
  return plans;
}

void pack(const RankPart& part, const void* from, std::int64_t base, std::int64_t width,
          std::byte* packed, std::vector<Move>& moves) {
  for (const FlatRange& range : part.ranges) {
    const std::int64_t count = range.numel() * width;
    moves.push_back(
        {packed, static_cast<const std::byte*>(from) + (range.begin - base) * width, count});
    packed += count;
  }
}

}  // namespace zeroproof::cuda
