#pragma once

#include <memory>

#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::reference {

/// One rank of the sharded optimizer in any stage, without overlap or fusion; setup.overlap and
/// setup.exec have no effect.
///
/// Errors: invalid_argument if validate_setup rejects the setup, a number is outside R5's range,
/// or the gradient sum is native.
std::unique_ptr<DistributedOptimizer> make_distributed_optimizer(const OptimizerSetup& setup);

}  // namespace zeroproof::reference
