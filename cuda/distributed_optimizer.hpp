#pragma once

#include <memory>

#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::cuda {

/// Which passes the production step makes over memory. The bits are the same.
enum class StepForm {
  phases,  ///< one pass per phase; every phase can be looked at
  fused,   ///< two passes: finite check + norm, then unscale + clip + update + cast
  device,  ///< as phases, with the CUDA kernels; needs a device that answers
};

/// One rank of the production optimizer: any shard map, stages 0 to 3, host or device kernels.
/// Errors: invalid_argument if the setup is incomplete, a hyper-parameter of any group leaves rule R5, the norm or the
/// gradient sum cannot be had on these ranks (R11, R12), or layout, shard map and communicators do not fit each other;
/// unavailable for StepForm::device without a device.
std::unique_ptr<DistributedOptimizer> make_distributed_optimizer(const OptimizerSetup& setup,
                                                                 StepForm form = StepForm::phases);

}  // namespace zeroproof::cuda
