#include "common/layout/shard_map.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/error.hpp"

namespace zeroproof {
namespace {

std::vector<Bucket> contract_buckets(std::int64_t padded_numel, int world_size,
                                     std::int64_t bucket_numel) {
  std::vector<Bucket> buckets;
  for (std::int64_t begin = 0; begin < padded_numel;
       begin += std::min(bucket_numel, padded_numel - begin)) {
    const FlatRange range{begin, begin + std::min(bucket_numel, padded_numel - begin)};
    const std::int64_t chunks = range.numel() / layout_alignment;
    Bucket bucket{range, {}};
    for (int rank = 0; rank < world_size; ++rank) {
      const FlatRange slice{begin + chunks * rank / world_size * layout_alignment,
                            begin + chunks * (rank + 1) / world_size * layout_alignment};
      bucket.owned.emplace_back();
      if (slice.numel() > 0) bucket.owned.back().push_back(slice);
    }
    buckets.push_back(std::move(bucket));
  }
  return buckets;
}

/// Owners of one bucket: inside it, in order, and no element twice.
void check_owned(const Bucket& bucket) {
  std::vector<FlatRange> all;
  for (const std::vector<FlatRange>& owned : bucket.owned) {
    for (std::size_t i = 0; i < owned.size(); ++i) {
      ZP_CHECK(owned[i].numel() > 0 && (i == 0 || owned[i - 1].end <= owned[i].begin) &&
                   owned[i].begin >= bucket.range.begin && owned[i].end <= bucket.range.end,
               ErrorCode::invalid_argument,
               "an owned range [" + std::to_string(owned[i].begin) + ", " +
                   std::to_string(owned[i].end) + ") is empty, out of order or outside its bucket",
               "shard buffers follow the global numbering",
               "sort the ranges, and remove empty ones");
    }
    all.insert(all.end(), owned.begin(), owned.end());
  }
  std::sort(all.begin(), all.end(),
            [](const FlatRange& a, const FlatRange& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < all.size(); ++i) {
    ZP_CHECK(all[i - 1].end <= all[i].begin, ErrorCode::invalid_argument,
             "element " + std::to_string(all[i].begin) + " has two owners", "both would update it",
             "assign one owner to every element");
  }
}

}  // namespace

ShardMap::ShardMap(std::int64_t padded_numel, int world_size, std::int64_t bucket_numel)
    : world_size_(world_size), padded_numel_(padded_numel), contract_(true) {
  ZP_CHECK(world_size >= 1, ErrorCode::invalid_argument,
           "world size is " + std::to_string(world_size),
           "a shard map needs an owner for every element", "use a world size of 1 or more");
  ZP_CHECK(padded_numel >= 0 && padded_numel % layout_alignment == 0, ErrorCode::invalid_argument,
           "padded_numel is " + std::to_string(padded_numel),
           "shards are split at multiples of " + std::to_string(layout_alignment),
           "pass FlatLayout::padded_numel()");
  ZP_CHECK(bucket_numel >= layout_alignment && bucket_numel % layout_alignment == 0,
           ErrorCode::invalid_argument, "bucket_numel is " + std::to_string(bucket_numel),
           "buckets are split at multiples of " + std::to_string(layout_alignment),
           "use a positive multiple of " + std::to_string(layout_alignment));
  for (Bucket& bucket : contract_buckets(padded_numel, world_size, bucket_numel)) {
    buckets_.push_back(bucket.range);
    owned_.push_back(std::move(bucket.owned));
  }
}

ShardMap::ShardMap(std::int64_t padded_numel, int world_size, std::vector<Bucket> buckets)
    : world_size_(world_size), padded_numel_(padded_numel) {
  ZP_CHECK(world_size >= 1, ErrorCode::invalid_argument,
           "world size is " + std::to_string(world_size),
           "a shard map needs an owner for every element", "use a world size of 1 or more");
  std::int64_t end = 0;
  for (Bucket& bucket : buckets) {
    ZP_CHECK(bucket.range.begin == end && bucket.range.numel() > 0, ErrorCode::invalid_argument,
             "a bucket starts at " + std::to_string(bucket.range.begin) +
                 " where the last one ended at " + std::to_string(end),
             "buckets follow each other without gaps",
             "split the flat range into adjacent buckets");
    ZP_CHECK(bucket.owned.size() == static_cast<std::size_t>(world_size),
             ErrorCode::invalid_argument,
             "a bucket is distributed over " + std::to_string(bucket.owned.size()) + " ranks of " +
                 std::to_string(world_size),
             "the layout was built for another world", "build it for this world size");
    check_owned(bucket);
    end = bucket.range.end;
    for (const std::vector<FlatRange>& owned : bucket.owned) {
      for (const FlatRange& range : owned) {
        aligned_ =
            aligned_ && range.begin % layout_alignment == 0 && range.end % layout_alignment == 0;
      }
    }
    buckets_.push_back(bucket.range);
    owned_.push_back(std::move(bucket.owned));
  }
  ZP_CHECK(end == padded_numel, ErrorCode::invalid_argument,
           "the buckets end at " + std::to_string(end) + " of " + std::to_string(padded_numel) +
               " elements",
           "every element needs an owner", "let the buckets cover the whole flat range");
}

const std::vector<FlatRange>& ShardMap::owned(std::size_t bucket, int rank) const {
  ZP_CHECK(
      bucket < buckets_.size() && rank >= 0 && rank < world_size_, ErrorCode::invalid_argument,
      "bucket " + std::to_string(bucket) + " of rank " + std::to_string(rank) + " does not exist",
      "there are " + std::to_string(buckets_.size()) + " buckets and " +
          std::to_string(world_size_) + " ranks",
      "count both from 0");
  return owned_[bucket][rank];
}

std::int64_t ShardMap::owned_numel(std::size_t bucket, int rank) const {
  std::int64_t numel = 0;
  for (const FlatRange& range : owned(bucket, rank)) numel += range.numel();
  return numel;
}

FlatRange ShardMap::slice(std::size_t bucket, int rank) const {
  const std::vector<FlatRange>& mine = owned(bucket, rank);
  ZP_CHECK(contract_, ErrorCode::invalid_argument,
           "this layout has more than one slice of a bucket per rank",
           "only the contract's layout has one per rank", "use owned() for the ranges");
  const FlatRange& range = buckets_[bucket];
  const std::int64_t chunks = range.numel() / layout_alignment;
  const std::int64_t first = range.begin + chunks * rank / world_size_ * layout_alignment;
  return mine.empty() ? FlatRange{first, first} : mine.front();
}

std::vector<FlatRange> ShardMap::shard(int rank) const {
  std::vector<FlatRange> ranges;
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    for (const FlatRange& mine : owned(bucket, rank)) {
      if (!ranges.empty() && ranges.back().end == mine.begin) {
        ranges.back().end = mine.end;
      } else {
        ranges.push_back(mine);
      }
    }
  }
  return ranges;
}

std::int64_t ShardMap::shard_numel(int rank) const {
  std::int64_t numel = 0;
  for (const FlatRange& range : shard(rank)) numel += range.numel();
  return numel;
}

bool ShardMap::covers(const FlatLayout& layout) const {
  std::int64_t owned_elements = 0;  // owners never overlap, so counting is enough
  for (int rank = 0; rank < world_size_; ++rank) {
    for (const Piece& piece : layout.pieces(shard(rank))) owned_elements += piece.numel;
  }
  return layout.padded_numel() == padded_numel_ && owned_elements == layout.numel();
}

}  // namespace zeroproof
