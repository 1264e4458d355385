#pragma once

#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::cuda {

/// Returns the setup if the production optimizer can run it. Errors: invalid_argument.
const OptimizerSetup& validate(const OptimizerSetup& setup);

/// Errors: invalid_argument if the state does not cover the layout or a counter is negative.
void require_state(const OptimizerSetup& setup, const FullState& state);

/// Checks only the counters of the state, not its buffers.
void require_counters(const OptimizerSetup& setup, const FullState& state);

}  // namespace zeroproof::cuda
