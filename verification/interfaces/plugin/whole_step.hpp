#pragma once
// A library that makes whole steps, in the place of an optimizer.

#include <memory>

#include "common/step/distributed_optimizer.hpp"
#include "verification/interfaces/plugin/plugin.hpp"

namespace zeroproof::verification {

/// One rank of it. The library gets the leaves and shards of all ranks in one call, which rank 0 makes; what it leaves
/// is cut up again. It has no phases: only step() may be called, and what exists after it is exposed.
///
/// Errors: ErrorCode::unavailable if a library cannot be given such a setup (layers one by one, ranks that are not data
/// ranks, other instances). Steps throw CandidateFailure for what a plug-in does wrong but the numbers.
std::unique_ptr<DistributedOptimizer> make_whole_step(const OptimizerSetup& setup,
                                                      std::shared_ptr<Plugin> plugin);

}  // namespace zeroproof::verification
