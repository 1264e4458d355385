#pragma once
// How the existing systems deal out elements, each by its own rules, as shard maps of the one global numbering (R13).

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/span.hpp"
#include "common/layout/shard_map.hpp"

namespace zeroproof {

/// contract        equal buckets, slices cut at multiples of 1024 of the global numbering
/// megatron        [Megatron:buckets] tensors in reverse order, each starting at a multiple of 64 elements of its
///                 buffer; a bucket closes when it has reached bucket_numel and ends at a multiple of lcm(world, 128);
///                 rank r owns slice r of every bucket
/// deepspeed_flat  [DeepSpeed:flat] stages 1 and 2: all tensors one after another, padded at the end to a multiple of
///                 2 * world; rank r owns one slice of all
/// deepspeed_param [DeepSpeed:param] stage 3: every tensor on its own, padded to a multiple of world; rank r owns slice
/// r of each
/// fsdp2           [FSDP2:rows] rows of dimension 0: rank r owns ceil(rows / world) of them, later ranks fewer or none
/// greedy          [ZeroRedundancyOptimizer:greedy] whole tensors, largest first, each to the least loaded rank
enum class LayoutKind : std::uint8_t { contract, megatron, deepspeed_flat, deepspeed_param, fsdp2, greedy };

Span<const std::string_view> names_of(LayoutKind);

/// The system's own coordinates of what a rank owns, next to the global ones: for tables, and for answers known from
/// elsewhere.
struct PeerSlice {
  std::int64_t buffer = 0;        ///< bucket (megatron), tensor (deepspeed_param, fsdp2, greedy), else 0
  std::int64_t buffer_begin = 0;  ///< first element of the rank's part in that buffer, its padding included
  std::int64_t buffer_end = 0;
  std::int64_t numel = 0;  ///< elements of tensors in there; the rest is padding
};

/// What a system allocates for one rank, in its own order of buffers. Empty parts are listed too.
std::vector<PeerSlice> peer_slices(LayoutKind kind, const FlatLayout& layout, int world_size,
                                   std::int64_t bucket_numel, int rank);

/// The same ownership in the global numbering. Owned ranges hold elements of tensors only (contract: padding too).
/// Buckets of the other kinds are whole tensors, taken from the last to the first until bucket_numel is reached, so
/// that they can be reduced during the backward pass.
///
/// Units    world_size >= 1; bucket_numel >= 1 (contract: a multiple of 1024).
/// Errors   invalid_argument otherwise.
ShardMap make_shard_map(LayoutKind kind, const FlatLayout& layout, int world_size, std::int64_t bucket_numel);

}  // namespace zeroproof
