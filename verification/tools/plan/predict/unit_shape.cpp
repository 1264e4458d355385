// Units and persistent tensors: every rank's elements of them, and in how many stretches.

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "verification/tools/plan/predict/bucket_classes.hpp"
#include "verification/tools/plan/predict/predicted_step.hpp"

namespace zeroproof {
namespace {

void check_visits(const std::vector<FlatRange>& units, const std::vector<int>& visits) {
  for (const int unit : visits) {
    ZP_CHECK(unit >= 0 && unit < static_cast<int>(units.size()), ErrorCode::invalid_argument,
             "a visit names unit " + std::to_string(unit) + " of " + std::to_string(units.size()),
             "every visit runs a unit that exists", "pass LayeredModel::visits()");
  }
}

/// Collects the ranges of every rank, in increasing order.
class Stretches {
 public:
  explicit Stretches(int world_size) : ranks_(static_cast<std::size_t>(world_size)) {}

  /// Elements from position `from` of the rank's shard are copied to position `to`.
  void add(int rank, std::int64_t from, std::int64_t to, std::int64_t numel) {
    OfRank& mine = ranks_[rank];
    if (mine.count == 0 || mine.from_end != from || mine.to_end != to) ++mine.count;
    mine.from_end = from + numel;
    mine.to_end = to + numel;
    mine.numel += numel;
  }
  GatherShape result(const FlatRange& range, int rank) const {
    GatherShape shape{.range = range, .owned = ranks_[rank].numel};
    for (const OfRank& of_rank : ranks_) {
      shape.all += of_rank.numel;
      shape.owners += of_rank.numel > 0 ? 1 : 0;
      if (of_rank.count > 1) shape.split.add(of_rank.numel);
    }
    return shape;
  }

 private:
  struct OfRank {
    std::int64_t from_end = 0, to_end = 0, numel = 0, count = 0;
  };
  std::vector<OfRank> ranks_;
};

}  // namespace

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
  auto at = std::lower_bound(
      owned_.begin(), owned_.end(), stretch.begin,
      [](const Owned& owned, std::int64_t begin) { return owned.range.end <= begin; });
  for (; at != owned_.end() && at->range.begin < stretch.end; ++at) {
    const FlatRange part{std::max(at->range.begin, stretch.begin),
                         std::min(at->range.end, stretch.end)};
    use(at->rank, part, at->in_shard + part.begin - at->range.begin);
  }
}

void set_units(const std::vector<PredictedStep*>& ranks, const FlatLayout& layout,
               const Ownership& ownership, const std::vector<FlatRange>& units,
               const std::vector<int>& visits, std::int64_t persistent_numel) {
  check_visits(units, visits);
  for (PredictedStep* shape : ranks) {
    shape->visits = visits;
    shape->units.assign(units.size(), {});
    for (std::size_t u = 0; u < units.size(); ++u) shape->units[u].range = units[u];
    shape->stays.assign(units.size(), false);
    shape->persistent = {};
    cut_at_units(*shape);
  }
  if (ranks.empty() || ranks.front()->stage != 3) return;  // no unit is gathered
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
    for (PredictedStep* shape : ranks) {
      shape->units[u] = unit.result(units[u], shape->rank);
      shape->stays[u] = has_persistent && shape->units[u].all == 0;
    }
  }
  Stretches rest(ranks.front()->world_size);
  take_until(layout.padded_numel(), rest);  // without units: all tensors
  for (PredictedStep* shape : ranks) shape->persistent = persistent.result({0, 0}, shape->rank);
}

}  // namespace zeroproof
