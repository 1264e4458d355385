// The slice of a bucket that a rank owns, in C++: multiples of 1024 (lesson 6; rule R13).

#include "common/base/error.hpp"
#include "notebooks/puzzles/judge/wrappers/shard_map.hpp"

namespace zeroproof::mine {

/// The flat range [0, padded_numel) is split into buckets of bucket_numel elements; the last one
/// may be shorter. A bucket of n chunks of layout_alignment elements is split over the ranks in
/// order: rank r owns its chunks floor(n * r / world_size) up to (not including) floor(n * (r + 1)
/// / world_size). The result is relative to the beginning of the flat range, and may be empty.
///
/// Errors   ErrorCode::invalid_argument (use ZP_CHECK of common/base/error.hpp) if world_size is
///          below 1, a count is negative or no multiple of layout_alignment, bucket_numel is 0, or
///          there is no such bucket or rank.
FlatRange shard_map(std::int64_t padded_numel, int world_size, std::int64_t bucket_numel,
                    std::size_t bucket, int rank) {
  // TODO: the checks; the bucket; its chunks; the chunks of the rank
  return {};
}

}  // namespace zeroproof::mine
