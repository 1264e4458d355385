#pragma once
// Phase reduce with binned gradient sums (R11, binned): integers, so the order of ranks has no
// effect.

#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "reference/zero/sharded/micro_batch_pass.hpp"

namespace zeroproof::reference {

/// Any stage: CP parts are joined to gradients, every rank adds its own gradients at full size, the
/// owners merge the sums of all ranks, and instances merge those of their owners. Returns G on this
/// rank's shard, [shard_numel]. Collective.
std::vector<float> reduce_binned(const OptimizerSetup& setup, MicroBatchPass& pass);

}  // namespace zeroproof::reference
