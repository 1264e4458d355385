#pragma once
// Signature of the C++ puzzle shard_map: ShardMap's layout as one function (R13).

#include <cstddef>
#include <cstdint>

#include "common/layout/flat_layout.hpp"

namespace zeroproof {

/// A rank's slice of a bucket, as ShardMap(padded_numel, world_size, bucket_numel).slice(bucket,
/// rank).
using ShardMapFn = FlatRange(std::int64_t padded_numel, int world_size, std::int64_t bucket_numel,
                             std::size_t bucket, int rank);

}  // namespace zeroproof
