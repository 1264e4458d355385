#include "verification/training/gradients/step_grads.hpp"

#include <algorithm>

#include "common/base/error.hpp"
#include "common/step/scaled_params.hpp"
#include "verification/training/gradients/model_params.hpp"

namespace zeroproof::verification {
namespace {

TensorView exposed_view(DistributedOptimizer& optimizer, Phase phase, BufferId id) {
  for (const ExposedBuffer& buffer : optimizer.exposed(phase)) {
    if (buffer.id == id) return buffer.view;
  }
  fail(ErrorCode::internal,
       std::string(name(id)) + " is not exposed in phase " + std::string(name(phase)),
       "gradients are computed from it", "expose the buffers of the contract's table");
}

TensorBlocks blocks_of_rank(const Experiment& experiment, const CaseLayout::Local& local) {
  if (!has_scales(experiment.param_dtype())) return {};
  OptimizerSetup setup = experiment.setup();
  setup.layout = &local.layout;
  setup.placement = local.placement;
  setup.matrices = local.matrices;
  return blocks_of(setup);
}

}  // namespace

GradMaker::GradMaker(const Experiment& experiment, const CaseSpec& spec, const CaseLayout& layout,
                     Communicator& world, Communicator* tp, Communicator* cp)
    : spec_(spec),
      local_(layout.local(layout.place(world.rank()).tp_rank)),
      blocks_(blocks_of_rank(experiment, local_)),
      collector_(experiment.layout(), layout, spec.stage, world),
      units_(experiment.units(local_.layout)),
      visits_(experiment.visits()),
      own_micro_batches_(layout.own_micro_batches(world.rank(), experiment.config().micro_batches,
                                                  spec.stage, spec.place.order)) {
  if (layout.grid().cp == 1 && layout.grid().tp == 1) return;
  grid_model_ = std::make_unique<GridModel>(experiment, layout, layout.place(world.rank()), tp, cp);
}

StepGrads::StepGrads(GradMaker& maker, GradCache& cache, DistributedOptimizer& optimizer,
                     std::int64_t step, int log2_loss_scale, const StepGrads* shared) {
  TensorView params;
  if (maker.spec_.stage == 3) {
    gathered_ =
        maker.collector_.gather(exposed_view(optimizer, Phase::cast, BufferId::param_shard));
    params = gathered_.view();
  } else {
    params = exposed_view(optimizer, Phase::gather, BufferId::param_full);
  }
  // Layers receive the codes, gradients are computed from the decoded values.
  const TensorView shown = params;
  TensorView scale_inv;
  if (has_scales(params.dtype)) {
    scale_inv = exposed_view(optimizer, Phase::cast, BufferId::param_scale_inv);
    read_ = model_params(maker.local_.layout, maker.blocks_, params, scale_inv);
    params = read_.view();
  }
  if (shared != nullptr) {
    provider_ = shared->provider_;
  } else {
    own_ = maker.grid_model_
               ? maker.grid_model_->leaves(step, maker.own_micro_batches_, params, log2_loss_scale)
               : std::make_unique<CacheProvider>(cache, step, params, log2_loss_scale);
    provider_ = own_.get();
  }
  if (!maker.spec_.layered() || maker.units_.empty()) return;
  layers_ = std::make_unique<ProvidedLayers>(maker.local_.layout, maker.units_, maker.visits_,
                                             shown, scale_inv, *provider_);
}

void place_setup(OptimizerSetup& setup, const CaseSpec& spec, const CaseLayout& layout,
                 int world_rank) {
  const CaseLayout::Local& local = layout.local(layout.place(world_rank).tp_rank);
  setup.layout = &local.layout;
  setup.shards = &local.shards;
  setup.placement = local.placement;
  setup.matrices = local.matrices;
  setup.cp = layout.grid().cp;
  setup.stage = spec.stage;
  setup.order = spec.place.order;
  setup.grad_sum = spec.place.grad_sum;
  setup.persistent_numel = spec.place.persistent_numel;
  setup.overlap = spec.place.overlap;
  setup.windows = spec.place.windows;
  setup.transport = spec.place.transport;
  const std::string folder = setup.offload.folder;  // a setting of the run, not part of an id
  setup.offload = spec.place.offload;
  setup.offload.folder = folder;
}

}  // namespace zeroproof::verification
