#include "common/layout/shard_map.hpp"

#include <algorithm>
#include <string>

#include "common/base/error.hpp"

namespace zeroproof {

ShardMap::ShardMap(std::int64_t padded_numel, int world_size, std::int64_t bucket_numel)
    : world_size_(world_size), padded_numel_(padded_numel) {
  ZP_CHECK(world_size >= 1, ErrorCode::invalid_argument, "world size is " + std::to_string(world_size),
           "a shard map needs an owner for every element", "use a world size of 1 or more");
  ZP_CHECK(padded_numel >= 0 && padded_numel % layout_alignment == 0, ErrorCode::invalid_argument,
           "padded_numel is " + std::to_string(padded_numel),
           "shards are cut at multiples of " + std::to_string(layout_alignment),
           "pass FlatLayout::padded_numel()");
  ZP_CHECK(bucket_numel >= layout_alignment && bucket_numel % layout_alignment == 0,
           ErrorCode::invalid_argument, "bucket_numel is " + std::to_string(bucket_numel),
           "buckets are cut at multiples of " + std::to_string(layout_alignment),
           "use a positive multiple of " + std::to_string(layout_alignment));
  for (std::int64_t begin = 0; begin < padded_numel; begin += std::min(bucket_numel, padded_numel - begin)) {
    buckets_.push_back({begin, begin + std::min(bucket_numel, padded_numel - begin)});
  }
}

FlatRange ShardMap::slice(std::size_t bucket, int rank) const {
  ZP_CHECK(bucket < buckets_.size() && rank >= 0 && rank < world_size_, ErrorCode::invalid_argument,
           "bucket " + std::to_string(bucket) + " of rank " + std::to_string(rank) + " does not exist",
           "there are " + std::to_string(buckets_.size()) + " buckets and " + std::to_string(world_size_) +
               " ranks",
           "count both from 0");
  const FlatRange& range = buckets_[bucket];
  const std::int64_t chunks = range.numel() / layout_alignment;
  const std::int64_t first = chunks * rank / world_size_;
  const std::int64_t last = chunks * (rank + 1) / world_size_;
  return {range.begin + first * layout_alignment, range.begin + last * layout_alignment};
}

std::vector<FlatRange> ShardMap::shard(int rank) const {
  std::vector<FlatRange> ranges;
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    const FlatRange mine = slice(bucket, rank);
    if (mine.numel() == 0) continue;
    if (!ranges.empty() && ranges.back().end == mine.begin) {
      ranges.back().end = mine.end;
    } else {
      ranges.push_back(mine);
    }
  }
  return ranges;
}

std::int64_t ShardMap::shard_numel(int rank) const {
  std::int64_t numel = 0;
  for (const FlatRange& range : shard(rank)) numel += range.numel();
  return numel;
}

}  // namespace zeroproof
