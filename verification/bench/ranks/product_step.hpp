#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/layout/flat_layout.hpp"
#include "cuda/distributed_optimizer.hpp"
#include "verification/bench/ranks/data.hpp"

namespace zeroproof::verification::bench {

/// A way in which the production optimizer can be set up. Each is a row, with comparisons and checks of its own.
struct ProductVariant {
  const char* name;  ///< "messages"
  Windows windows = Windows::off;
  bool leaf_there = false;  ///< the last leaf is made in leaf_buffer() instead of memory of the caller
  bool more = false;        ///< M = 2 R + 1, so that some ranks hold two nodes, instead of M = R
  double goal_cold = 0;     ///< against the library's collectives as installed; 0: none
  double goal_warm = 0;     ///< the same with malloc that keeps its memory

  std::int64_t micro_batches(int ranks) const { return more ? 2 * ranks + 1 : ranks; }
  /// Whether its leaves are read where they are and its parameters written where they are read.
  bool one_pass_bytes() const { return windows == Windows::params && leaf_there && !more; }
};
const std::vector<ProductVariant>& product_variants();

/// "product, messages"
std::string row_name(const ProductVariant& variant);

/// The production step at stage 1, fused: one bucket, fp32 leaves, a norm that clips.
class RankProductStep {
 public:
  RankProductStep(RankData& data, const ProductVariant& variant);

  const ProductVariant& variant() const { return variant_; }
  void step();
  std::int64_t steps() const { return steps_; }

  /// The buffer of this rank: [shard], parameters [numel].
  TensorView buffer(BufferId id) const;

 private:
  class OwnLeaves;

  ProductVariant variant_;
  FlatLayout layout_;
  ShardMap shards_;
  std::unique_ptr<DistributedOptimizer> optimizer_;
  std::unique_ptr<GradSource> leaves_;
  std::int64_t steps_ = 0;
};

/// One of every variant. Collective.
std::vector<std::unique_ptr<RankProductStep>> product_steps(RankData& data);

}  // namespace zeroproof::verification::bench
