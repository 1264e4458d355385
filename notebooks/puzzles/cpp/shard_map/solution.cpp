// shard_map: the bucket, its chunks, and the chunks of the rank.

#include <algorithm>

#include "common/base/error.hpp"
#include "notebooks/puzzles/judge/wrappers/shard_map.hpp"

namespace zeroproof::mine {

FlatRange shard_map(std::int64_t padded_numel, int world_size, std::int64_t bucket_numel,
                    std::size_t bucket, int rank) {
  ZP_CHECK(world_size >= 1 && padded_numel >= 0 && padded_numel % layout_alignment == 0 &&
               bucket_numel >= layout_alignment && bucket_numel % layout_alignment == 0,
           ErrorCode::invalid_argument, "invalid layout", "every element needs an owner",
           "correct its values");
  ZP_CHECK(bucket < static_cast<std::size_t>((padded_numel + bucket_numel - 1) / bucket_numel) &&
               rank >= 0 && rank < world_size,
           ErrorCode::invalid_argument, "no such slice", "buckets and ranks count from 0",
           "correct bucket or rank");
  const std::int64_t begin = static_cast<std::int64_t>(bucket) * bucket_numel;
  const std::int64_t chunks = std::min(bucket_numel, padded_numel - begin) / layout_alignment;
  return {begin + chunks * rank / world_size * layout_alignment,
          begin + chunks * (rank + 1) / world_size * layout_alignment};
}

}  // namespace zeroproof::mine
