#pragma once

#include <memory>

#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::reference {

/// One rank of the sharded optimizer in any stage, written out straight; setup.overlap and setup.exec change nothing.
///
/// Errors: invalid_argument if the setup is incomplete or out of range (stage, micro_batches, cp, persistent_numel, R5's
/// ranges); if layout, shard map, communicators, placement and groups do not fit each other; if the norm is chunk1024
/// with several TP ranks or a map that cuts chunks; if parameters other than bf16 are to be rounded stochastically; if
/// the gradient sum is native, or binned with more than 128 leaves.
std::unique_ptr<DistributedOptimizer> make_distributed_optimizer(const OptimizerSetup& setup);

}  // namespace zeroproof::reference
