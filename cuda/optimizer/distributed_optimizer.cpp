#include "cuda/distributed_optimizer.hpp"

#include "cuda/device/runtime/device.hpp"
#include "cuda/optimizer/device_optimizer.hpp"
#include "cuda/optimizer/host/host_step.hpp"
#include "cuda/optimizer/production_optimizer.hpp"

namespace zeroproof::cuda {

std::unique_ptr<DistributedOptimizer> make_distributed_optimizer(const OptimizerSetup& setup,
                                                                 Space space, bool fused) {
  if (space == Space::device) {
    device::require_device();
    return std::make_unique<DeviceOptimizer>(setup, fused, false);
  }
  return std::make_unique<ProductionOptimizer>(setup, space, host_ops(),
                                               host_steps(fused, host_ops()));
}

std::unique_ptr<EnqueuedOptimizer> make_enqueued_optimizer(const OptimizerSetup& setup, bool fused,
                                                           bool graphs) {
  device::require_device();
  return std::make_unique<DeviceOptimizer>(setup, fused, graphs);
}

std::unique_ptr<DistributedOptimizer> make_distributed_optimizer(const OptimizerSetup& setup,
                                                                 const KernelTable& ops) {
  return std::make_unique<ProductionOptimizer>(setup, Space::host, ops, host_steps(false, ops));
}

}  // namespace zeroproof::cuda
