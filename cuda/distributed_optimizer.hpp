#pragma once

#include <memory>

#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::cuda {

/// Which passes the production step makes over memory. The bits are the same.
enum class StepForm {
  phases,  ///< one pass per phase; every phase can be looked at
  fused,   ///< two passes: finite check + norm, then unscale + clip + update + cast
};

/// One rank of the production optimizer: flat buckets, stages 0, 1 and 2, host kernels.
/// Errors: as reference::make_distributed_optimizer.
std::unique_ptr<DistributedOptimizer> make_distributed_optimizer(const OptimizerSetup& setup,
                                                                 StepForm form = StepForm::phases);

}  // namespace zeroproof::cuda
