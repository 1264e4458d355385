#pragma once
// Phase reduce of the sharded step: who sends which part of the tree to whom (R11). All calls are collective, and
// return G on this rank's shard, [shard_numel].

#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "reference/zero/sharded/micro_batch_pass.hpp"

namespace zeroproof::reference {

/// Stages 0 and 1: the rank keeps a full-size stack, and one exchange at the end of the step brings what is left on it
/// to the owners.
std::vector<float> reduce_at_boundary(const OptimizerSetup& setup, MicroBatchPass& pass);

/// Stages 2 and 3: every micro-step hands its leaves to the owners, unit by unit, and the stacks live on the shard.
/// What a rank keeps of the gradients gets smaller with the number of ranks.
std::vector<float> reduce_by_micro_step(const OptimizerSetup& setup, MicroBatchPass& pass);

}  // namespace zeroproof::reference
