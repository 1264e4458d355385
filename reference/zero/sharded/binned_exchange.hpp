#pragma once
// Phase reduce with leaves added in bins (R11, binned): integers, so nobody has to ask for any order.

#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "reference/zero/sharded/micro_batch_pass.hpp"

namespace zeroproof::reference {

/// Any stage: CP parts become leaves, every rank adds up its own leaves at full size, the owners merge what all ranks
/// have, and the instances merge what their owners have. Returns G on this rank's shard, [shard_numel]. Collective.
std::vector<float> reduce_binned(const OptimizerSetup& setup, MicroBatchPass& pass);

}  // namespace zeroproof::reference
