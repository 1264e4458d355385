#include "cuda/optimizer/layered/layered_pass.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "cuda/comm/exchange/micro_batches.hpp"
#include "cuda/optimizer/layered/layered_grads.hpp"
#include "cuda/optimizer/overlap/plan_audit.hpp"

namespace zeroproof::cuda {
namespace {

std::vector<bool> persistent_units(const OptimizerSetup& setup,
                                   const std::vector<FlatRange>& units) {
  std::vector<bool> persistent(units.size(), setup.stage == 3);
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (units[u].numel() == 0) persistent[u] = false;
    const std::vector<TensorSlot>& tensors = setup.layout->tensors();
    auto tensor = std::ranges::lower_bound(tensors, units[u].begin, {}, &TensorSlot::begin);
    for (; tensor != tensors.end() && tensor->begin < units[u].end; ++tensor) {
      if (tensor->numel > setup.persistent_numel) persistent[u] = false;
    }
  }
  return persistent;
}

LayerSchedule checked_shape(const OptimizerSetup& setup, const LayeredModel& model,
                            const UnitGatherer* gatherer, const TensorView& params) {
  ZP_CHECK(setup.stage == 2 || setup.stage == 3, ErrorCode::invalid_argument,
           "a layer-by-layer pass needs stage 2 or 3, not " + std::to_string(setup.stage),
           "stages 0 and 1 reduce whole gradients", "use LayeredGrads there");
  require_units(model, *setup.layout);
  ZP_CHECK(setup.stage == 2 || gatherer != nullptr, ErrorCode::invalid_argument,
           "stage 3 has no gatherer", "no rank has whole parameters there", "pass one");
  ZP_CHECK(setup.stage == 3 ||
               (params.numel == setup.layout->padded_numel() && params.dtype == setup.param_dtype),
           ErrorCode::invalid_argument,
           "whole parameters have " + std::to_string(params.numel) + " " +
               std::string(name(params.dtype)) + " elements",
           "the layout has " + std::to_string(setup.layout->padded_numel()) + " and expects " +
               std::string(name(setup.param_dtype)),
           "pass param_full, padding included");
  return {model.units(), model.visits(), setup.shards->buckets(),
          setup.stage,   setup.overlap,  persistent_units(setup, model.units())};
}

BufferFill fill_of(const OptimizerSetup& setup) {
  return setup.guards ? BufferFill::poison : BufferFill::untouched;
}

ReadyCount make_ready(const LayerSchedule& shape,
                      const std::vector<std::vector<BucketPart>>& parts) {
  std::vector<int> expected(shape.units.size(), 0);
  for (const int unit : shape.visits) ++expected[unit];
  std::vector<std::vector<int>> units(parts.size());
  for (std::size_t b = 0; b < parts.size(); ++b) {
    for (const BucketPart& part : parts[b]) units[b].push_back(part.unit);
  }
  return {std::move(expected), std::move(units)};
}

}  // namespace

LayeredPass::LayeredPass(const OptimizerSetup& setup, LayeredModel& model, UnitGatherer* gatherer,
                         BucketSink& sink, MemoryLedger& ledger, const TensorView& params,
                         ExecutorHooks hooks, PlanRunner* runner)
    : setup_(setup),
      model_(model),
      sink_(sink),
      params_(params),
      shape_(checked_shape(setup, model, gatherer, params)),
      plan_(make_plan(shape_)),
      grads_(shape_.units, shape_.buckets, setup.grad_dtype, ledger, fill_of(setup)),
      ready_(make_ready(shape_, grads_.parts())),
      own_runner_(runner != nullptr
                      ? nullptr
                      : std::make_unique<PlanExecutor>("rank " + std::to_string(setup.comm->rank()),
                                                       std::move(hooks))),
      runner_(runner != nullptr ? *runner : *own_runner_) {
  if (setup.stage == 3) {
    gathered_.emplace(shape_.units, shape_.persistent, setup.param_dtype, *gatherer, ledger,
                      fill_of(setup));
  }
  require_sound(plan_);
}

void LayeredPass::run() {
  if (gathered_) gathered_->gather_persistent();
  for (std::int64_t i = 0; i < micro_steps(setup_); ++i) {
    try {
      run_micro_step(i);
    } catch (...) {
      grads_.free_all();
      if (gathered_) gathered_->release_all();
      throw;
    }
  }
}

void LayeredPass::run_micro_step(std::int64_t micro_step) {
  micro_step_ = micro_step;
  micro_batch_ = own_micro_batch(setup_, micro_step);
  ready_.restart();
  if (micro_batch_) model_.begin(*micro_batch_);
  runner_.run(plan_, [this](const PlanOp& op) { run_op(op); });
  if (micro_batch_) ready_.finish();
}

void LayeredPass::run_op(const PlanOp& op) {
  const int index = op.target.index;
  switch (op.kind) {
    case OpKind::allocate:
      return allocate(op.target);
    case OpKind::gather:
      return gathered_->gather(index);
    case OpKind::check_version:
      return static_cast<void>(gathered_->get(index));
    case OpKind::forward:
      return micro_batch_ ? model_.forward(index, param(index)) : void();
    case OpKind::release:
    case OpKind::free:
      return free(op.target);
    case OpKind::backward:
      if (!micro_batch_) return;
      model_.backward(index, param(index), grads_.unit(index));
      ready_.report(index);
      return;
    case OpKind::ready:
      return micro_batch_ ? grads_.seal(index) : void();
    case OpKind::reduce:
      if (micro_batch_) ready_.require_complete(index);
      const TensorView nothing{nullptr, setup_.grad_dtype, shape_.buckets[index].numel()};
      return sink_.reduce(static_cast<std::size_t>(index), micro_step_,
                          micro_batch_ ? grads_.bucket(index) : nothing);
  }
}

void LayeredPass::allocate(const PlanBuffer& buffer) {
  if (buffer.kind == BufferKind::unit_param) return gathered_->allocate(buffer.index);
  if (!micro_batch_) return;  // no gradient, no memory
  if (buffer.kind == BufferKind::unit_grad) return grads_.allocate_unit(buffer.index);
  grads_.allocate_bucket(buffer.index);
}

void LayeredPass::free(const PlanBuffer& buffer) {
  if (buffer.kind == BufferKind::unit_param) return gathered_->release(buffer.index);
  if (!micro_batch_) return;
  if (buffer.kind == BufferKind::unit_grad) return grads_.free_unit(buffer.index);
  grads_.free_bucket(buffer.index);
}

TensorView LayeredPass::param(int unit) const {
  if (gathered_) return gathered_->get(unit);
  return stretch(params_, 0, shape_.units[unit]);
}

}  // namespace zeroproof::cuda
