#pragma once
// Nodes and messages of a step: a rank's memory as in cuda/README.md, "Memory of a step", counted
// without values.

#include <cstdint>

#include "verification/tools/plan/predict/leaf_stacks.hpp"
#include "verification/tools/plan/predict/predicted_step.hpp"

namespace zeroproof {

/// Bytes that are allocated in the first step and never freed.
struct ReduceMemory {
  std::int64_t nodes = 0;  ///< of the tree, bins, native sums, and a leaf with all TP parts in it
  std::int64_t messages =
      0;  ///< the largest of each of the three buffers, including those of gathers
};

/// stacks: of the run.
ReduceMemory reduce_memory(const PredictedStep& shape, LeafStacks& stacks);

/// Parameters that are whole on the rank, besides its shard if that is all of them.
std::int64_t whole_param_numel(const PredictedStep& shape);

/// Micro-batches this rank computes.
std::int64_t own_leaves(const PredictedStep& shape);

}  // namespace zeroproof
