// Phase reduce of a model that runs layer by layer.

#include <string>

#include "cuda/layered/layered_grads.hpp"
#include "cuda/layered/layered_pass.hpp"
#include "cuda/zero/production_optimizer.hpp"

namespace zeroproof::cuda {

void ProductionOptimizer::reduce_layered(LayeredModel& model, GradSource& leaves) {
  const TensorView params = params_.full();
  if (setup_.stage < 2) {
    LayeredGrads whole(model, leaves, *setup_.layout, params, setup_.grad_dtype, ledger_);
    const GradTarget target = grad_target();
    reduce_.reduce_leaves(whole, target);  // the leaf ends with this phase
    if (target.see) sum_.set_looked_at();
    return;
  }
  if (!executor_) executor_ = std::make_unique<PlanExecutor>("rank " + std::to_string(setup_.comm->rank()));
  LayeredPass pass(setup_, model, setup_.stage == 3 ? &params_ : nullptr, reduce_, ledger_, params, {},
                   executor_.get());
  try {
    pass.run();
  } catch (...) {
    reduce_.clear();
    throw;
  }
  const GradTarget target = grad_target();
  reduce_.finish(target);
  if (target.see) sum_.set_looked_at();
}

}  // namespace zeroproof::cuda
