#pragma once
// Phase reduce of the sharded step: who sends which part of the tree to whom (R11). All calls are collective.

#include <vector>

#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::reference {

/// Stages 0 and 1. Contiguous assignment: the rank keeps a full-size stack, and one exchange at the end of
/// the step brings its maximal nodes to the owners. Returns G on this rank's shard.
std::vector<float> reduce_contiguous(const OptimizerSetup& setup, LeafSource& leaves);

/// Stage 2. Strided assignment: every micro-step hands its leaves to the owners, and the stack lives on the
/// shard: what a rank keeps of the gradients gets smaller with the number of ranks. Returns G on this rank's
/// shard.
std::vector<float> reduce_strided(const OptimizerSetup& setup, LeafSource& leaves);

/// All ranks' shards end up in the full buffer of every rank, as bytes.
void gather_shards(const OptimizerSetup& setup, const TensorView& shard, const TensorView& full);

}  // namespace zeroproof::reference
