#pragma once
// Interfaces between a layer-by-layer pass and the rest of the production step: whole parameters
// in, complete gradients out.

#include <cstddef>
#include <cstdint>

#include "common/base/span.hpp"
#include "common/layout/flat_layout.hpp"

namespace zeroproof::cuda {

/// Takes the gradient of a bucket as soon as it is complete (stages 2 and 3).
class BucketSink {
 public:
  virtual ~BucketSink() = default;

  /// Reduces one bucket of one micro-step (R11): parts of TP ranks, then the data ranks. Collective over all of them,
  /// so every rank calls it for the same buckets in the same order.
  /// leaf: [bucket numel] in the gradient dtype, this rank's gradient of the bucket's range of the
  /// global numbering; data is null on a rank that has no micro-batch in this micro-step. It may be
  /// overwritten or freed afterwards.
  virtual void reduce(std::size_t bucket, std::int64_t micro_step, const TensorView& leaf) = 0;
};

/// Makes whole parameters from shards (stage 3).
class UnitGatherer {
 public:
  virtual ~UnitGatherer() = default;

  /// Collective over the ranks that shard the state.
  /// full: [unit numel] in the parameter dtype, the unit's range of the global numbering; padding
  /// is not written.
  virtual void gather(const FlatRange& unit, const TensorView& full) = 0;

  /// Counts casts: parameters gathered at another count are stale.
  virtual std::int64_t version() const = 0;
};

}  // namespace zeroproof::cuda
