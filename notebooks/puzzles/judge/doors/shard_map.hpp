#pragma once
// What the C++ puzzle shard_map is asked for: ShardMap's layout as one function (R13).

#include <cstddef>
#include <cstdint>

#include "common/layout/flat_layout.hpp"

namespace zeroproof {

/// What a rank owns of a bucket, as ShardMap(padded_numel, world_size, bucket_numel).slice(bucket, rank) has it.
using ShardMapFn = FlatRange(std::int64_t padded_numel, int world_size, std::int64_t bucket_numel,
                             std::size_t bucket, int rank);

}  // namespace zeroproof
