#pragma once
// The production optimizer, for a world.

#include "cuda/distributed_optimizer.hpp"
#include "tests/support/world.hpp"

namespace zeroproof::tests {

inline MakeOptimizer production(bool fused = false) {
  return [fused](const OptimizerSetup& setup) {
    return cuda::make_distributed_optimizer(setup, Space::host, fused);
  };
}

}  // namespace zeroproof::tests
