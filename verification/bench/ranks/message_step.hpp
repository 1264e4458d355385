#pragma once

#include <memory>

#include "common/layout/flat_layout.hpp"
#include "cuda/distributed_optimizer.hpp"
#include "verification/bench/ranks/data.hpp"

namespace zeroproof::verification::bench {

/// The production step at stage 1, with messages: M = R, one bucket, fp32 leaves, no clipping.
class MessageStep {
 public:
  explicit MessageStep(RankData& data);

  void step();
  std::int64_t steps() const { return steps_; }

  /// The buffer of this rank: [shard], parameters [numel].
  TensorView buffer(BufferId id) const;

 private:
  class OwnLeaf;

  FlatLayout layout_;
  ShardMap shards_;
  std::unique_ptr<GradSource> leaves_;
  std::unique_ptr<DistributedOptimizer> optimizer_;
  std::int64_t steps_ = 0;
};

}  // namespace zeroproof::verification::bench
