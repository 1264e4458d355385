#pragma once
// Sharding rules of existing systems, as shard maps of the global numbering (R13).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/span.hpp"
#include "common/layout/shard_map.hpp"

namespace zeroproof {

/// Distribution of the elements over ranks.
///
/// - contract: equal buckets, slices split at multiples of 1024 of the global numbering
/// - megatron: [Megatron:buckets] tensors in reverse order, each starting at a multiple of 64
///   elements of its buffer; a bucket closes when it has reached bucket_numel and ends at a
///   multiple of lcm(world, 128); rank r owns slice r of every bucket
/// - deepspeed_flat: [DeepSpeed:flat] stages 1 and 2: all tensors of a param group one after
///   another, padded at the end to a multiple of 2 * world; rank r owns one slice of every group
/// - deepspeed_param: [DeepSpeed:param] stage 3: every tensor on its own, padded to a multiple of
///   world; rank r owns slice r of each
/// - fsdp2: [FSDP2:rows] rows of dimension 0: rank r owns ceil(rows / world) of them, later ranks
///   fewer or none
/// - greedy: [ZeroRedundancyOptimizer:greedy] whole tensors, largest first, each to the least
///   loaded rank; param groups one after another, loads going on from one to the next
///
/// The others distribute all tensors without regard to groups.
enum class LayoutKind : std::uint8_t {
  contract,
  megatron,
  deepspeed_flat,
  deepspeed_param,
  fsdp2,
  greedy
};

Span<const std::string_view> names_of(LayoutKind);

/// Neighbouring elements of a tensor inside a buffer.
struct PeerPiece {
  std::int64_t tensor = 0;        ///< index into FlatLayout::tensors()
  std::int64_t tensor_begin = 0;  ///< first element, counted from the tensor's start
  std::int64_t buffer_begin = 0;  ///< the same element in the buffer
  std::int64_t numel = 0;         ///< >= 1
};

/// The system's own coordinates of a rank's elements, next to the global ones: for tables, and for
/// comparison with published values.
struct PeerSlice {
  std::int64_t buffer =
      0;  ///< bucket (megatron), param group (deepspeed_flat), tensor (deepspeed_param, fsdp2,
          ///< greedy), else 0
  std::int64_t buffer_begin =
      0;  ///< first element of the rank's part in that buffer, its padding included
  std::int64_t buffer_end = 0;
  std::int64_t numel = 0;              ///< elements of tensors in there; the rest is padding
  std::vector<PeerPiece> pieces = {};  ///< of these elements, in the order of the buffer
};

/// The buffers that a system allocates for one rank, in its own order. Empty parts are listed too.
/// group_of, Errors: as for make_shard_map.
std::vector<PeerSlice> peer_slices(LayoutKind kind, const FlatLayout& layout, int world_size,
                                   std::int64_t bucket_numel, int rank,
                                   Span<const int> group_of = {});

/// The same ownership in the global numbering. Owned ranges hold elements of tensors only (contract: padding too).
/// Buckets of the other kinds are whole tensors, taken from the last to the first until bucket_numel is reached, so
/// that they can be reduced during the backward pass.
///
/// Shapes   group_of [num_tensors]: the param group of every tensor, from 0; empty: all are in one.
/// Units    world_size >= 1; bucket_numel >= 1 (contract: a multiple of 1024).
/// Errors   invalid_argument otherwise.
ShardMap make_shard_map(LayoutKind kind, const FlatLayout& layout, int world_size,
                        std::int64_t bucket_numel, Span<const int> group_of = {});

}  // namespace zeroproof
