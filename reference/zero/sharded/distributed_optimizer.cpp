#include "reference/distributed_optimizer.hpp"

#include "common/base/error.hpp"
#include "common/step/validate_setup.hpp"
#include "reference/zero/sharded/sharded_optimizer.hpp"

namespace zeroproof::reference {

std::unique_ptr<DistributedOptimizer> make_distributed_optimizer(const OptimizerSetup& setup) {
  validate_setup(setup);
  ZP_CHECK(setup.grad_sum != GradSum::native, ErrorCode::invalid_argument,
           "the gradient sum of the reference is native",
           "native sums have no reproducible bits to compare with; the bounds of R11 apply to them",
           "use tree or binned");
  return std::make_unique<ShardedOptimizer>(setup);
}

}  // namespace zeroproof::reference
