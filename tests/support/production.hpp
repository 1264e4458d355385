#pragma once
// The production optimizer, for a world.

#include "cuda/distributed_optimizer.hpp"
#include "tests/support/world.hpp"

namespace zeroproof::tests {

inline MakeOptimizer production(bool fused = false, Space space = Space::host) {
  return [fused, space](const OptimizerSetup& setup) {
    return cuda::make_distributed_optimizer(setup, space, fused);
  };
}

}  // namespace zeroproof::tests
