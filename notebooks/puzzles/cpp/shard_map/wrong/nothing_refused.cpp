// caught: (the contract refuses it: invalid_argument)

#include <algorithm>

#include "notebooks/puzzles/judge/wrappers/shard_map.hpp"

namespace zeroproof::mine {

FlatRange shard_map(std::int64_t padded_numel, int world_size, std::int64_t bucket_numel,
                    std::size_t bucket, int rank) {
  if (world_size < 1 || rank >= world_size) return {};
  const std::int64_t begin = static_cast<std::int64_t>(bucket) * bucket_numel;
  const std::int64_t chunks = std::min(bucket_numel, padded_numel - begin) / layout_alignment;
  return {begin + chunks * rank / world_size * layout_alignment,
          begin + chunks * (rank + 1) / world_size * layout_alignment};
}

}  // namespace zeroproof::mine
