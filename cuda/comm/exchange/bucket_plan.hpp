#pragma once
// Who owns what of every bucket, and packing such parts.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "cuda/comm/memory/memory_space.hpp"
#include "cuda/host/base/piece_loop.hpp"

namespace zeroproof::cuda {

/// What one rank owns of a bucket.
struct RankPart {
  std::vector<FlatRange> ranges;  ///< in increasing order
  std::int64_t numel = 0;         ///< of all ranges

  /// True if the part needs no packing to be sent or received.
  bool one_range() const { return ranges.size() <= 1; }
  std::int64_t begin() const { return ranges.empty() ? 0 : ranges.front().begin; }
};

/// One bucket as this rank sees it. A part is *packed* when its ranges stand one after another.
struct BucketPlan {
  const ShardMap* shards = nullptr;
  std::size_t index = 0;    ///< of the bucket in the shard map
  FlatRange range;          ///< the bucket in the global numbering
  RankPart own;             ///< this rank's part
  host::PieceLoop all{{}};  ///< tensors in the bucket; local indices count from its start
  host::PieceLoop mine{
      {}};  ///< tensors in this rank's part; local indices count in the packed part
  host::PieceLoop replicated{
      {}};  ///< tensors whose gradient the TP ranks have in parts; local indices count in them alone
  host::PieceLoop unreplicated{{}};  ///< the others, if there are such; local indices as in all
  std::int64_t replicated_numel = 0;
  std::int64_t local_begin = 0;  ///< where the packed part starts in a shard buffer
  bool whole =
      false;  ///< gradient buffers cover the full flat range (stage 0) instead of the shard

  /// What a rank owns. Made when asked for: a table in every rank would grow with the square of the world.
  RankPart part(int rank) const;
  std::vector<RankPart> parts() const;  // [world_size]

  /// This rank's part of a shard buffer.
  TensorView packed_part(const TensorView& shard) const {
    return {static_cast<std::byte*>(shard.data) + local_begin * num_bytes(shard.dtype), shard.dtype,
            own.numel};
  }
};

/// What this rank keeps master and state for: everything in stage 0, otherwise its shard.
std::vector<FlatRange> state_ranges(const OptimizerSetup& setup);

/// Elements of all ranges.
std::int64_t total_numel(const std::vector<FlatRange>& ranges);

std::vector<BucketPlan> plan_buckets(const OptimizerSetup& setup);

/// Adds the copies of a part out of a buffer that starts at global index `base`, elements of `width` bytes.
void pack(const RankPart& part, const void* from, std::int64_t base, std::int64_t width,
          std::byte* packed, std::vector<Move>& moves);

}  // namespace zeroproof::cuda
