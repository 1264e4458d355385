#pragma once

#include <vector>

#include "common/contracts/step_scalars.hpp"
#include "common/step/phase.hpp"

namespace zeroproof {

/// The buffers a rule keeps from step to step besides the master, in the order of R6; none for sgd without momentum.
/// Errors: invalid_argument if there is no such rule.
std::vector<BufferId> kept_buffers(const OptimizerHyper& hyper);

}  // namespace zeroproof
