// Phase reduce of a model that runs layer by layer.

#include <string>

#include "cuda/optimizer/layered/layered_grads.hpp"
#include "cuda/optimizer/layered/layered_pass.hpp"
#include "cuda/optimizer/overlap/plan_executor.hpp"
#include "cuda/optimizer/overlap/stream_executor.hpp"
#include "cuda/optimizer/production_optimizer.hpp"

namespace zeroproof::cuda {

std::unique_ptr<PlanRunner> ProductionOptimizer::make_runner() const {
  if (ledger_.space().kind == Space::device) return std::make_unique<StreamExecutor>();
  return std::make_unique<PlanExecutor>("rank " + std::to_string(setup_.comm->rank()));
}

void ProductionOptimizer::reduce_layered(LayeredModel& model, GradSource& leaves) {
  const TensorView params = params_.full();
  if (scales_) model.set_scales(scales_.scale_inv());
  if (setup_.stage < 2) {
    LayeredGrads whole(model, leaves, *setup_.layout, params, setup_.grad_dtype, ledger_);
    GradTarget target = step_->grad_target();
    target.leaf_may_stay = false;  // it ends with this phase
    reduce_.reduce_leaves(whole, target);
    return step_->end_sum({}, target);
  }
  if (!executor_) executor_ = make_runner();
  const GradTarget target = step_->grad_target();
  reduce_.expect(target);
  LayeredPass pass(setup_, model, setup_.stage == 3 ? &params_ : nullptr, reduce_, ledger_, params,
                   {}, executor_.get());
  try {
    pass.run();
  } catch (...) {
    reduce_.clear();
    throw;
  }
  reduce_.finish(target);
  step_->end_sum({}, target);
}

}  // namespace zeroproof::cuda
