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
  Windows windows;
  bool leaf_there = false;  ///< the leaf is made in leaf_buffer() instead of memory of the caller
};
const std::vector<ProductVariant>& product_variants();

/// "product, messages"
std::string row_name(const ProductVariant& variant);

/// The production step at stage 1, fused: M = R, one bucket, fp32 leaves, a norm that clips.
class RankProductStep {
 public:
  RankProductStep(RankData& data, const ProductVariant& variant);

  const ProductVariant& variant() const { return variant_; }
  void step();
  std::int64_t steps() const { return steps_; }

  /// The buffer of this rank: [shard], parameters [numel].
  TensorView buffer(BufferId id) const;

 private:
  class OwnLeaf;

  ProductVariant variant_;
  FlatLayout layout_;
  ShardMap shards_;
  std::unique_ptr<GradSource> leaves_;
  std::unique_ptr<DistributedOptimizer> optimizer_;
  std::int64_t steps_ = 0;
};

/// One of every variant. Collective.
std::vector<std::unique_ptr<RankProductStep>> product_steps(RankData& data);

}  // namespace zeroproof::verification::bench
