// caught: phase layout  rank 0  buffer shard | 8,192 elements, buckets of 8,192, 3 ranks | bucket 0, rank 1 | got
// [2048, 4096)  want [2048, 5120)

#include <algorithm>

#include "common/base/error.hpp"
#include "notebooks/puzzles/judge/wrappers/shard_map.hpp"

namespace zeroproof::mine {

FlatRange shard_map(std::int64_t padded_numel, int world_size, std::int64_t bucket_numel,
                    std::size_t bucket, int rank) {
  ZP_CHECK(world_size >= 1 && padded_numel >= 0 && padded_numel % layout_alignment == 0 &&
               bucket_numel >= layout_alignment && bucket_numel % layout_alignment == 0,
           ErrorCode::invalid_argument, "this is no layout", "every element needs an owner",
           "look at its numbers");
  ZP_CHECK(bucket < static_cast<std::size_t>((padded_numel + bucket_numel - 1) / bucket_numel) &&
               rank >= 0 && rank < world_size,
           ErrorCode::invalid_argument, "there is no such slice", "buckets and ranks count from 0",
           "look at both");
  const std::int64_t begin = static_cast<std::int64_t>(bucket) * bucket_numel;
  const std::int64_t chunks = std::min(bucket_numel, padded_numel - begin) / layout_alignment;
  return {begin + chunks / world_size * rank * layout_alignment,
          begin + chunks / world_size * (rank + 1) * layout_alignment};
}

}  // namespace zeroproof::mine
