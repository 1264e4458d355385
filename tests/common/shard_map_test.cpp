#include "common/layout/shard_map.hpp"

#include <doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/base/error.hpp"

namespace shard_map_test {

using namespace zeroproof;

namespace {

constexpr std::int64_t chunk = layout_alignment;
constexpr int worlds[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 64};
constexpr std::int64_t all_chunks[] = {0, 1, 2, 3, 5, 7, 8, 16, 63, 64, 65, 100, 257};
constexpr std::int64_t bucket_chunks[] = {1, 2, 3, 7, 10, 64, 1000};

bool is_cut(const FlatRange& range) {
  return range.begin >= 0 && range.begin <= range.end && range.begin % chunk == 0 &&
         range.end % chunk == 0;
}

/// Buckets of the requested size, the last one shorter, covering everything once.
void check_buckets(const ShardMap& map, std::int64_t padded, std::int64_t bucket_numel) {
  std::int64_t at = 0;
  for (const FlatRange& bucket : map.buckets()) {
    CHECK(is_cut(bucket));
    CHECK(bucket.begin == at);
    CHECK(bucket.numel() == std::min(bucket_numel, padded - at));
    CHECK(bucket.numel() > 0);
    at = bucket.end;
  }
  CHECK(at == padded);
}

/// Owner of every chunk by the slices; -1 without one, -2 with several.
std::vector<int> owners(const ShardMap& map) {
  std::vector<int> owner(map.padded_numel() / chunk, -1);
  for (std::size_t b = 0; b < map.buckets().size(); ++b) {
    std::int64_t most = 0;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (int rank = 0; rank < map.world_size(); ++rank) {
      const FlatRange slice = map.slice(b, rank);
      REQUIRE(is_cut(slice));
      if (slice.numel() > 0) {
        REQUIRE(slice.begin >= map.buckets()[b].begin);
        REQUIRE(slice.end <= map.buckets()[b].end);
      }
      for (std::int64_t c = slice.begin / chunk; c < slice.end / chunk; ++c) {
        int& mine = owner[c];
        mine = mine == -1 ? rank : -2;
      }
      most = std::max(most, slice.numel());
      least = std::min(least, slice.numel());
    }
    CHECK(most - least <=
          chunk);  // one rank with everything would be a legal map that saves no memory
  }
  return owner;
}

void check_shard(const ShardMap& map, const std::vector<int>& owner, int rank) {
  std::vector<int> mine(owner.size(), 0);
  std::int64_t numel = 0;
  std::int64_t last_end = -1;
  for (const FlatRange& range : map.shard(rank)) {
    CHECK(is_cut(range));
    CHECK(range.numel() > 0);
    CHECK(range.begin > last_end);  // in increasing order, and touching ranges were merged
    last_end = range.end;
    numel += range.numel();
    REQUIRE(range.end <= map.padded_numel());
    for (std::int64_t c = range.begin / chunk; c < range.end / chunk; ++c) ++mine[c];
  }
  CHECK(map.shard_numel(rank) == numel);
  bool same = true;
  for (std::size_t c = 0; c < owner.size(); ++c)
    same = same && mine[c] == (owner[c] == rank ? 1 : 0);
  CHECK(same);
}

bool refuses(std::int64_t padded, int world_size, std::int64_t bucket_numel) {
  try {
    const ShardMap map(padded, world_size, bucket_numel);
  } catch (const Error& error) {
    return error.code() == ErrorCode::invalid_argument;
  }
  return false;
}

}  // namespace

TEST_CASE("shard map: every chunk has one owner, for all worlds and buckets") {
  for (const int world_size : worlds) {
    for (const std::int64_t chunks : all_chunks) {
      for (const std::int64_t bucket : bucket_chunks) {
        CAPTURE(world_size);
        CAPTURE(chunks);
        CAPTURE(bucket);
        const ShardMap map(chunks * chunk, world_size, bucket * chunk);
        CHECK(map.world_size() == world_size);
        CHECK(map.padded_numel() == chunks * chunk);
        check_buckets(map, chunks * chunk, bucket * chunk);
        const std::vector<int> owner = owners(map);
        CHECK(std::all_of(owner.begin(), owner.end(), [](int rank) { return rank >= 0; }));
        for (int rank = 0; rank < world_size; ++rank) check_shard(map, owner, rank);
      }
    }
  }
}

TEST_CASE("shard map: one rank owns one range, for any number of buckets") {
  const ShardMap map(10 * chunk, 1, chunk);
  CHECK(map.buckets().size() == 10);
  CHECK(map.shard(0) == std::vector<FlatRange>{{0, 10 * chunk}});
}

TEST_CASE("shard map: ranks without elements") {
  const ShardMap nothing(0, 3, chunk);
  CHECK(nothing.buckets().empty());
  const ShardMap three(3 * chunk, 8, 64 * chunk);
  int owning = 0;
  for (int rank = 0; rank < 8; ++rank) {
    if (rank < 3) CHECK(nothing.shard(rank).empty());
    if (rank < 3) CHECK(nothing.shard_numel(rank) == 0);
    if (three.shard_numel(rank) == 0) {
      CHECK(three.shard(rank).empty());
      CHECK(three.slice(0, rank).numel() == 0);
    } else {
      ++owning;
    }
  }
  CHECK(owning == 3);
}

TEST_CASE("shard map: sizes beyond 32 bits") {
  const std::int64_t padded = std::int64_t{1} << 44;
  const std::int64_t far = (std::numeric_limits<std::int64_t>::max() / chunk) * chunk;
  for (const std::int64_t bucket : {padded, far, padded / 4 + chunk}) {
    const ShardMap map(padded, 7, bucket);
    std::vector<FlatRange> all;
    for (int rank = 0; rank < 7; ++rank) {
      for (const FlatRange& range : map.shard(rank)) all.push_back(range);
    }
    std::sort(all.begin(), all.end(),
              [](const FlatRange& a, const FlatRange& b) { return a.begin < b.begin; });
    std::int64_t at = 0;
    for (const FlatRange& range : all) {
      CHECK(is_cut(range));
      CHECK(range.begin == at);
      at = range.end;
    }
    CHECK(at == padded);
  }
}

TEST_CASE("shard map: a map does not depend on earlier calls") {
  const ShardMap one(20 * chunk, 3, 7 * chunk);
  const ShardMap two(20 * chunk, 3, 7 * chunk);
  const std::vector<FlatRange> late = (static_cast<void>(two.shard(2)), two.shard(0));
  CHECK(one.shard(0) == late);
  CHECK(one.shard(0) == late);
}

TEST_CASE("shard map: invalid arguments") {
  for (const int world_size : {0, -1, std::numeric_limits<int>::min()})
    CHECK(refuses(chunk, world_size, chunk));
  for (const std::int64_t padded :
       {std::int64_t{-1}, -chunk, std::int64_t{1}, std::int64_t{1000}, chunk - 1, chunk + 1,
        chunk / 2, std::numeric_limits<std::int64_t>::min()}) {
    CAPTURE(padded);
    CHECK(refuses(padded, 2, chunk));
  }
  for (const std::int64_t bucket :
       {std::int64_t{0}, std::int64_t{-1}, -chunk, std::int64_t{1}, chunk / 2, chunk - 1, chunk + 1,
        std::numeric_limits<std::int64_t>::max()}) {
    CAPTURE(bucket);
    CHECK(refuses(chunk, 2, bucket));
    CHECK(refuses(0, 2, bucket));
  }
}

}  // namespace shard_map_test
