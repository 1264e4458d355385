#include "cuda/distributed_optimizer.hpp"

#include "common/base/error.hpp"
#include "cuda/zero/host_step.hpp"
#include "cuda/zero/production_optimizer.hpp"

namespace zeroproof::cuda {

std::unique_ptr<DistributedOptimizer> make_distributed_optimizer(const OptimizerSetup& setup, Space space,
                                                                 bool fused) {
  ZP_CHECK(space == Space::host || !fused, ErrorCode::unavailable, "fused passes were asked for on a device",
           "only the host has kernels that do several phases at once", "use the phases there, or the host");
  const PhaseOps& ops = space == Space::device ? device_ops() : host_ops();
  return std::make_unique<ProductionOptimizer>(setup, space, ops, host_steps(fused, ops));
}

}  // namespace zeroproof::cuda
