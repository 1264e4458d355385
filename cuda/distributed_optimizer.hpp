#pragma once

#include <memory>

#include "common/base/space.hpp"
#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::cuda {

/// One rank of the production optimizer: any shard map, stages 0 to 3. Both memory spaces, fused or
/// not, give the same bits.
///
/// - space: device: buffers in device memory and the CUDA kernels; needs a usable device, and ranks
///   that are threads of one process.
/// - fused: two passes over memory, finite check + norm and unscale + clip + update + cast, instead
///   of one for each phase; single phases can then not be inspected.
///
/// Errors: invalid_argument if the setup is incomplete, a hyper-parameter of any group violates
/// rule R5, these ranks cannot compute the norm or the gradient sum (R11, R12), or layout, shard
/// map and communicators do not match; unavailable in the space device without a device, or if
/// ranks cannot access each other's device memory.
std::unique_ptr<DistributedOptimizer> make_distributed_optimizer(const OptimizerSetup& setup,
                                                                 Space space = Space::host,
                                                                 bool fused = false);

struct KernelTable;

/// The same on the host, phase by phase, with a table of implementations from the caller. `ops`
/// outlives the optimizer.
/// Errors: invalid_argument as above; exceptions of the implementations leave step().
std::unique_ptr<DistributedOptimizer> make_distributed_optimizer(const OptimizerSetup& setup,
                                                                 const KernelTable& ops);

}  // namespace zeroproof::cuda
