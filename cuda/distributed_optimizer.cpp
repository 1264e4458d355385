#include "cuda/distributed_optimizer.hpp"

#include "cuda/production_optimizer.hpp"

namespace zeroproof::cuda {

std::unique_ptr<DistributedOptimizer> make_distributed_optimizer(const OptimizerSetup& setup, StepForm form) {
  return std::make_unique<ProductionOptimizer>(setup, form);
}

}  // namespace zeroproof::cuda
