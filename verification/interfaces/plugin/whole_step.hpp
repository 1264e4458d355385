#pragma once
// An optimizer whose whole steps are made by a library.

#include <memory>

#include "common/step/distributed_optimizer.hpp"
#include "verification/interfaces/plugin/plugin.hpp"

namespace zeroproof::verification {

/// One rank of it. The library gets the gradients and shards of all ranks in one call by rank 0;
/// its results are split again over the ranks. It has no phases: only step() may be called, and the
/// buffers that exist after a step are exposed. Errors: ErrorCode::unavailable if the interface
/// does not support the setup (layer by layer, ranks other than data ranks, several instances).
/// Steps throw CandidateFailure for every failure of a plug-in except wrong numbers.
std::unique_ptr<DistributedOptimizer> make_whole_step(const OptimizerSetup& setup,
                                                      std::shared_ptr<Plugin> plugin);

}  // namespace zeroproof::verification
