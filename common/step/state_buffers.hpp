#pragma once
// Buffers of the optimizer's persistent state, which is stored in checkpoints (R6).

#include <vector>

#include "common/contracts/step_scalars.hpp"
#include "common/step/phase.hpp"

namespace zeroproof {

/// True for the master weights and the moments: [shard_numel] each, of rules that have them, in the formats of R25.
constexpr bool is_state(BufferId id) {
  return id == BufferId::master || id == BufferId::exp_avg || id == BufferId::exp_avg_sq ||
         id == BufferId::max_exp_avg_sq || id == BufferId::momentum_buffer;
}

/// The buffers a rule keeps from step to step besides the master, in the order of R6; none for sgd without momentum.
/// Errors: invalid_argument if there is no such rule.
std::vector<BufferId> kept_buffers(const OptimizerHyper& hyper);

}  // namespace zeroproof
