#pragma once
// Memory of one rank in a step in bytes, computed from the rank's shape.

#include "common/step/memory_use.hpp"

namespace zeroproof {

class LeafStacks;
struct PredictedStep;

/// Bytes a rank holds after its second step (now) and at most (peak), as
/// DistributedOptimizer::memory() counts them: the first step allocates the memory of nodes and
/// messages, which then stays. at_peak, if not null: the classes at the peak of the sum. stacks, if
/// not null: those of the run, counted before for all of its ranks.
MemoryUse predict_memory(const PredictedStep& shape, BytesByClass* at_peak = nullptr,
                         LeafStacks* stacks = nullptr);

}  // namespace zeroproof
