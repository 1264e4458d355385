#include "cuda/optimizer/production_optimizer.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "cuda/optimizer/state_loader.hpp"

namespace zeroproof::cuda {

ProductionOptimizer::ProductionOptimizer(const OptimizerSetup& setup, Space space,
                                         const KernelTable& ops, const MakeLocalStep& make_step,
                                         const std::optional<CommGroups>& comm_groups,
                                         const OffloadMakers& offload)
    : layout_(setup, space, comm_groups),
      memory_(layout_, space, offload.state),
      params_(layout_, memory_),
      reduction_(layout_, memory_, ops),
      shard_{.setup = layout_.setup,
             .ranges = layout_.ranges,
             .pieces = layout_.pieces,
             .grad = memory_.grad,
             .master = memory_.master,
             .params = params_.store,
             .state = memory_.state,
             .split = layout_.split.get(),
             .scales = params_.scales ? &params_.scales : nullptr,
             .tiles = memory_.blocks.get(),
             .column_params = params_.columns.store(),
             .column_scales = params_.columns.scales(),
             .matrices = layout_.matrices.get(),
             .orthogonal = &memory_.orthogonal,
             .messages = &memory_.messages} {
  if (!layout_.split) {
    step_ = make_step(shard_);
    return;
  }
  auto step =
      std::make_unique<SplitStateStep>(shard_, *memory_.offloaded, memory_.space(), make_step, ops,
                                       offload.step, memory_.offloaded_grad.get());
  offload_step_ = step.get();
  step_ = std::move(step);
}

MemoryUse ProductionOptimizer::memory() const {
  MemoryUse use = memory_.use();
  if (offload_step_ != nullptr) use.offloaded_host += offload_step_->host_bytes();
  return use;
}

void ProductionOptimizer::load_state(const FullState& state) { load(state); }

void ProductionOptimizer::load_state_from(const StateSource& source) { load(source); }

template <class State>
void ProductionOptimizer::load(const State& state) {
  StateLoader(layout_, memory_, *step_, offload_step_).load(state);
  params_.gather.count_cast();
  gather();
  memory_.space().wait();  // reports errors to the caller; other streams may then read the buffers
  loaded_ = true;
}

void ProductionOptimizer::run_phase(Phase phase, GradSource& leaves) {
  ZP_CHECK(loaded_, ErrorCode::invalid_argument,
           "no state was loaded before phase " + std::string(name(phase)),
           "masters and moments are still poisoned", "call load_state first");
  ZP_CHECK(!skipped() || !skipped_on_overflow(phase), ErrorCode::invalid_argument,
           "phase " + std::string(name(phase)) + " was called in a skipped step",
           "a step with an overflow must not change the state", "begin the next step with prepare");
  execute(phase, leaves);
}

void ProductionOptimizer::execute(Phase phase, GradSource& leaves) {
  switch (phase) {
    case Phase::prepare:
      return step_->prepare(leaves);
    case Phase::reduce:
      step_->begin_sum();
      return reduce(leaves);
    case Phase::unscale:
      return step_->unscale();
    case Phase::norm:
      return step_->norm();
    case Phase::clip:
      return step_->clip();
    case Phase::update:
      step_->prepare_update();
      return step_->update();
    case Phase::cast:
      step_->cast();
      return params_.gather.count_cast();
    case Phase::gather:
      return gather();
  }
}

void ProductionOptimizer::reduce(GradSource& leaves) {
  ZP_CHECK(leaves.space() == memory_.space().kind, ErrorCode::invalid_argument,
           "the gradients of a step are in device memory",
           "the buffers of this optimizer are in host memory",
           "copy them to the host, or use the optimizer in the space device");
  if (LayeredModel* model = leaves.layers()) return reduce_layered(*model, leaves);
  reduction_.reduce(leaves, *step_);
}

void ProductionOptimizer::reduce_layered(LayeredModel& model, GradSource& leaves) {
  reduction_.reduce_layered(model, leaves, params_, *step_);
}

void ProductionOptimizer::gather() { params_.gather_all(); }

void ProductionOptimizer::overwritten(Phase phase) {
  step_->overwritten(phase);
  if (phase == Phase::cast) params_.take_shown();
}

// Views of the production optimizer for observers and comparisons.

std::vector<ExposedBuffer> ProductionOptimizer::exposed(Phase phase) {
  if (phase == Phase::cast) return params_.exposed_cast();
  if (phase == Phase::gather) return params_.exposed_gather();
  return step_->exposed(phase);
}

std::vector<ExposedBuffer> ProductionOptimizer::storage() {
  std::vector<ExposedBuffer> buffers;
  for (const Phase phase : all_phases) {
    for (ExposedBuffer& buffer : exposed(phase)) {
      const bool seen = std::ranges::any_of(buffers, [&](const ExposedBuffer& other) {
        return other.view.data == buffer.view.data && other.view.numel > 0;
      });
      if (!seen) buffers.push_back(std::move(buffer));
    }
  }
  return buffers;
}

std::string ProductionOptimizer::damaged_guard() const {
  std::string name = memory_.damaged_guard();
  return name.empty() ? params_.damaged_guard() : name;
}

}  // namespace zeroproof::cuda
