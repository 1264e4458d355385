#pragma once

#include <memory>

#include "common/base/space.hpp"
#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::cuda {

/// One rank of the production optimizer: any shard map, stages 0 to 3. The bits are the same in both spaces, fused or
/// not.
///
/// space   device: buffers in device memory and the CUDA kernels; needs a device that answers, and ranks that are
///         threads of one process.
/// fused   two passes over memory, finite check + norm and unscale + clip + update + cast, instead of one for each
///         phase; phases can then not be looked at one by one.
/// Errors: invalid_argument if the setup is incomplete, a hyper-parameter of any group leaves rule R5, the norm or the
/// gradient sum cannot be had on these ranks (R11, R12), or layout, shard map and communicators do not fit each other;
/// unavailable in the space device without a device, or if ranks cannot reach each other's device memory.
std::unique_ptr<DistributedOptimizer> make_distributed_optimizer(const OptimizerSetup& setup,
                                                                 Space space = Space::host,
                                                                 bool fused = false);

struct KernelTable;

/// The same on the host, phase by phase, with a table of implementations of somebody else. `ops` outlives the optimizer.
/// Errors: invalid_argument as above; whatever the implementations throw comes out of step().
std::unique_ptr<DistributedOptimizer> make_distributed_optimizer(const OptimizerSetup& setup,
                                                                 const KernelTable& ops);

}  // namespace zeroproof::cuda
