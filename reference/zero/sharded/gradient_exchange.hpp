#pragma once
// Phase reduce of the sharded step: parts of the tree in messages between ranks (R11). All calls
// are collective, and return G on this rank's shard, [shard_numel].

#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "reference/zero/sharded/micro_batch_pass.hpp"

namespace zeroproof::reference {

/// Stages 0 and 1: the rank has a full-size stack, and one exchange at the end of the step sends
/// its nodes to the owners.
std::vector<float> reduce_at_boundary(const OptimizerSetup& setup, MicroBatchPass& pass);

/// Stages 2 and 3: every micro-step sends its gradients to the owners, unit by unit, and stacks
/// have the size of the shard. The memory of a rank for gradients shrinks with the number of ranks.
std::vector<float> reduce_by_micro_step(const OptimizerSetup& setup, MicroBatchPass& pass);

}  // namespace zeroproof::reference
