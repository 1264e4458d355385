#pragma once

#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::cuda {

/// Returns the setup if the production optimizer can run it. Errors: invalid_argument.
const OptimizerSetup& validate(const OptimizerSetup& setup);

/// Errors: invalid_argument if the state does not cover the layout or a counter is negative.
void require_state(const OptimizerSetup& setup, const FullState& state);

/// The same of the counters alone: what `state` has of buffers is not looked at.
void require_counters(const OptimizerSetup& setup, const FullState& state);

}  // namespace zeroproof::cuda
