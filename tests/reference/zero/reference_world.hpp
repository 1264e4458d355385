#pragma once
// The sharded reference in a world of threads.

#include "reference/distributed_optimizer.hpp"
#include "tests/reference/support.hpp"
#include "tests/support/dense_world.hpp"
#include "tests/support/shard_maps.hpp"

namespace zeroproof::tests {

/// Seven chunks: an odd tensor, an empty one, two that end after a chunk boundary, and a single
/// number.
inline CutTensors odd_tensors() {
  return {{{"a", {37}}, {"nothing", {0, 5}}, {"b", {3, 700}}, {"one", {}}, {"c", {1025}}}};
}
inline FlatLayout odd_layout() { return FlatLayout(odd_tensors().params); }

inline OptimizerHyper usual_hyper(UpdateRule rule = UpdateRule::adamw) {
  OptimizerHyper hyper;
  hyper.rule = rule;
  hyper.lr = 0.05;
  hyper.weight_decay = 0.1;
  hyper.max_norm = 2.0;
  return hyper;
}

inline World reference_world(int stage, const Grid& grid, std::int64_t micro_batches) {
  World world{odd_tensors(), reference::make_distributed_optimizer, grid};
  world.setup.stage = stage;
  world.setup.micro_batches = micro_batches;
  world.setup.hyper = usual_hyper();
  world.setup.scaler = lively_scaler();
  world.setup.seed = 0x123456789ABCDEFU;
  return world;
}

}  // namespace zeroproof::tests
