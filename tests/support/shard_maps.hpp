#pragma once
// Shard maps other than the contract's layout.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

#include "common/layout/flat_layout.hpp"
#include "common/layout/shard_map.hpp"

namespace zeroproof::tests {

/// Maps of at least four tensors, in two buckets; padding has no owner unless one rank owns everything.
enum class Dealt {
  stretches,  ///< 97 elements to each rank in turn
  tensors,    ///< whole tensors in turn, in reverse order
  last_rank   ///< everything to one rank
};

inline ShardMap dealt_map(const FlatLayout& layout, int world_size, Dealt dealt) {
  const std::int64_t middle = layout.tensors()[3].begin;
  std::vector<Bucket> buckets;
  int turn = 0;
  for (const FlatRange& range : {FlatRange{0, middle}, FlatRange{middle, layout.padded_numel()}}) {
    Bucket bucket{range, std::vector<std::vector<FlatRange>>(world_size)};
    const auto give = [&](int rank, const FlatRange& part) { bucket.owned[rank].push_back(part); };
    if (dealt == Dealt::last_rank) give(world_size - 1, range);
    for (const Piece& piece : layout.pieces({range})) {
      const std::int64_t end = piece.global_begin + piece.numel;
      if (dealt == Dealt::tensors)
        give(world_size - 1 - turn++ % world_size, {piece.global_begin, end});
      if (dealt != Dealt::stretches) continue;
      for (std::int64_t begin = piece.global_begin; begin < end; begin += 97)
        give(turn++ % world_size, {begin, std::min(begin + 97, end)});
    }
    buckets.push_back(std::move(bucket));
  }
  return ShardMap(layout.padded_numel(), world_size, std::move(buckets));
}

inline std::function<ShardMap(const FlatLayout&, int)> dealt_map(Dealt dealt) {
  return [dealt](const FlatLayout& layout, int world_size) {
    return dealt_map(layout, world_size, dealt);
  };
}

/// Split anywhere, several ranges of a bucket and rank; some ranks of many own nothing, padding often has no owner.
inline ShardMap ragged_map(const FlatLayout& layout, int world_size) {
  std::vector<Bucket> buckets;
  const std::int64_t cuts[] = {0, 1500, 1501, 4099, layout.padded_numel()};
  std::int64_t run = 0;
  for (std::size_t b = 0; b + 1 < std::size(cuts); ++b) {
    Bucket bucket{{cuts[b], cuts[b + 1]}, {}};
    bucket.owned.resize(world_size);
    for (std::int64_t begin = cuts[b]; begin < cuts[b + 1]; ++run) {
      const std::int64_t end = std::min(begin + run * 29 % 613 + 1, cuts[b + 1]);
      const auto rank = static_cast<std::size_t>((run * run + 1) % world_size);
      const bool padding = layout.pieces({{begin, end}}).empty();
      if (!padding || run % 3 != 0) bucket.owned[rank].push_back({begin, end});
      begin = end;
    }
    buckets.push_back(std::move(bucket));
  }
  return ShardMap(layout.padded_numel(), world_size, std::move(buckets));
}

}  // namespace zeroproof::tests
