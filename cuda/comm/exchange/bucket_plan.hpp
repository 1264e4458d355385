#pragma once
// Ownership of the elements of every bucket, and packing of such parts.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "cuda/comm/memory/memory_space.hpp"
#include "cuda/host/base/piece_loop.hpp"

namespace zeroproof::cuda {

/// The elements of a bucket that one rank owns.
struct RankPart {
  std::vector<FlatRange> ranges;  ///< in increasing order
  std::int64_t numel = 0;         ///< of all ranges

  /// True if the part needs no packing to be sent or received.
  bool one_range() const { return ranges.size() <= 1; }
  std::int64_t begin() const { return ranges.empty() ? 0 : ranges.front().begin; }
};

/// One bucket from the view of this rank. A part is *packed* when its ranges are stored one after
/// another.
struct BucketPlan {
  const ShardMap* shards = nullptr;
  std::size_t index = 0;     ///< of the bucket in the shard map
  FlatRange range;           ///< the bucket in the global numbering
  RankPart own;              ///< this rank's part
  host::PieceLoop all{{}};   ///< tensors in the bucket; local indices start at its begin
  host::PieceLoop mine{{}};  ///< tensors in this rank's part; local indices in the packed part
  host::PieceLoop replicated{
      {}};  ///< tensors with gradients partitioned over TP ranks; own local indices
  host::PieceLoop unreplicated{{}};  ///< the other tensors, if any; local indices as in all
  std::int64_t replicated_numel = 0;
  std::int64_t local_begin = 0;  ///< start of the packed part in a shard buffer
  bool whole =
      false;  ///< gradient buffers cover the full flat range (stage 0) instead of the shard

  /// Elements that a rank owns. Computed on demand: a table in every rank would grow with the
  /// square of the world.
  RankPart part(int rank) const;
  std::vector<RankPart> parts() const;  // [world_size]

  /// This rank's part of a shard buffer.
  TensorView packed_part(const TensorView& shard) const {
    return {static_cast<std::byte*>(shard.data) + local_begin * num_bytes(shard.dtype), shard.dtype,
            own.numel};
  }
};

/// Elements whose master and state this rank stores: all of them in stage 0, otherwise its shard.
std::vector<FlatRange> state_ranges(const OptimizerSetup& setup);

/// Elements of all ranges.
std::int64_t total_numel(const std::vector<FlatRange>& ranges);

std::vector<BucketPlan> plan_buckets(const OptimizerSetup& setup);

/// Adds the copies of a part out of a buffer that starts at global index `base`, with elements of
/// `width` bytes.
void pack(const RankPart& part, const void* from, std::int64_t base, std::int64_t width,
          std::byte* packed, std::vector<Move>& moves);

}  // namespace zeroproof::cuda
