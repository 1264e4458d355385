#pragma once

#include <memory>

#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::reference {

/// One rank of the sharded optimizer in any stage, written out straight; setup.overlap and setup.exec change nothing.
///
/// Errors: invalid_argument if validate_setup refuses the setup, a number leaves R5's ranges, or the gradient sum is
/// native.
std::unique_ptr<DistributedOptimizer> make_distributed_optimizer(const OptimizerSetup& setup);

}  // namespace zeroproof::reference
