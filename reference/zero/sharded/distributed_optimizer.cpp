#include "reference/distributed_optimizer.hpp"

#include "common/base/error.hpp"
#include "common/step/validate_setup.hpp"
#include "reference/zero/sharded/sharded_optimizer.hpp"

namespace zeroproof::reference {

std::unique_ptr<DistributedOptimizer> make_distributed_optimizer(const OptimizerSetup& setup) {
  validate_setup(setup);
  ZP_CHECK(setup.grad_sum != GradSum::native, ErrorCode::invalid_argument,
           "the gradient sum is native and this is the reference",
           "what a library adds has no bits to compare with; it is judged by the bounds of R11",
           "use the reference with tree or binned");
  return std::make_unique<ShardedOptimizer>(setup);
}

}  // namespace zeroproof::reference
