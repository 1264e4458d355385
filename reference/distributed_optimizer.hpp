#pragma once

#include <memory>

#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::reference {

/// One rank of the sharded optimizer, stages 0, 1 and 2, written out straight.
/// Errors: invalid_argument if the setup is incomplete, the stage is not 0..2, micro_batches < 1, layout,
/// shard map and communicator do not fit each other, hyper-parameters leave R5's ranges, or parameters other
/// than bf16 are to be rounded stochastically.
std::unique_ptr<DistributedOptimizer> make_distributed_optimizer(const OptimizerSetup& setup);

}  // namespace zeroproof::reference
