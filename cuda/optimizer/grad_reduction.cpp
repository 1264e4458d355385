#include "cuda/optimizer/grad_reduction.hpp"

#include <string>

#include "cuda/optimizer/layered/layered_grads.hpp"
#include "cuda/optimizer/layered/layered_pass.hpp"
#include "cuda/optimizer/overlap/plan_executor.hpp"
#include "cuda/optimizer/overlap/stream_executor.hpp"

namespace zeroproof::cuda {

GradReduction::GradReduction(const RankLayout& layout, RankMemory& memory, const KernelTable& ops)
    : layout_(layout),
      memory_(memory),
      buckets_(layout.setup, layout.plans, ops, memory.messages, memory.near.get(),
               layout.comm_groups) {
  if (memory.shared_grad) buckets_.read_sums(*memory.shared_grad);
}

void GradReduction::reduce(GradSource& leaves, LocalStep& step) {
  const GradTarget target = step.grad_target();
  step.end_sum(buckets_.reduce_leaves(leaves, target), target);
}

std::unique_ptr<PlanRunner> GradReduction::make_runner() const {
  if (memory_.space().kind == Space::device) return std::make_unique<StreamExecutor>();
  return std::make_unique<PlanExecutor>("rank " + std::to_string(layout_.setup.comm->rank()));
}

void GradReduction::reduce_layered(LayeredModel& model, GradSource& leaves, RankParams& params,
                                   LocalStep& step) {
  const OptimizerSetup& setup = layout_.setup;
  const TensorView full = params.gather.full();
  if (params.scales) model.set_scales(params.scales.scale_inv());
  GradTarget target = step.grad_target();
  if (setup.stage < 2) {
    LayeredGrads whole(model, leaves, *setup.layout, full, setup.grad_dtype, memory_.ledger);
    target.leaf_may_stay = false;  // it ends with this phase
    buckets_.reduce_leaves(whole, target);
    return step.end_sum({}, target);
  }
  if (!runner_) runner_ = make_runner();
  buckets_.expect(target);
  LayeredPass pass(setup, model, setup.stage == 3 ? &params.gather : nullptr, buckets_,
                   memory_.ledger, full, {}, runner_.get());
  try {
    pass.run();
  } catch (...) {
    buckets_.clear();
    throw;
  }
  buckets_.finish(target);
  step.end_sum({}, target);
}

}  // namespace zeroproof::cuda
