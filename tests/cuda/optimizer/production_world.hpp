#pragma once
// The production step in a world of threads.

#include "tests/support/production.hpp"
#include "tests/support/shard_maps.hpp"

namespace zeroproof::tests {

/// Odd sizes, an empty tensor, tensors over several chunks and buckets, scalars.
inline CutTensors odd_tensors() {
  return {{{"a", {7, 11}},
           {"b", {3}},
           {"empty", {0}},
           {"w", {50, 61}},
           {"v", {1025}},
           {"scalar", {}},
           {"u", {2, 1024}}}};
}
inline const FlatLayout& odd_layout() {
  static const FlatLayout layout(odd_tensors().params);
  return layout;
}

/// Two steps from the middle of a training, without overflow.
inline World production_world(const Grid& grid, std::int64_t micro_batches) {
  World world{odd_tensors(), production(), grid};
  world.steps = 2;
  world.overflow_step = 0;
  world.applied_steps = 2;
  world.setup.micro_batches = micro_batches;
  return world;
}

}  // namespace zeroproof::tests
