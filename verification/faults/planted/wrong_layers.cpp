// Layer-by-layer passes over a wrong gatherer, sink or plan.

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "cuda/optimizer/layered/layered_pass.hpp"
#include "cuda/optimizer/overlap/plan_audit.hpp"
#include "cuda/optimizer/production_optimizer.hpp"
#include "verification/faults/planted/fault_context.hpp"

namespace zeroproof::verification {
namespace {

using cuda::OpKind;
using cuda::StepPlan;

void poison(const TensorView& view) {
  if (view.numel > 0) std::memset(view.data, 0xFF, static_cast<std::size_t>(view.num_bytes()));
}

/// Production whose layered pass is assembled by a derived class.
class WrongLayers : public cuda::ProductionOptimizer {
 public:
  explicit WrongLayers(const FaultContext& context)
      : ProductionOptimizer(context.setup, context.space, context.ops,
                            step_of<cuda::HostStep>(context)),
        plan_executor_("rank " + std::to_string(context.setup.comm->rank())) {}

 protected:
  void run(LayeredModel& model, cuda::UnitGatherer& gatherer, cuda::BucketSink& sink,
           cuda::PlanRunner& runner) {
    const TensorView params = params_.gather.full();
    cuda::LayeredPass(layout_.setup, model, &gatherer, sink, memory_.ledger, params, {}, &runner)
        .run();
    reduction_.buckets().finish({memory_.grad->as<float>()});
  }

  cuda::PlanExecutor plan_executor_;
};

/// Parameters are gathered from the shard as it was before the last cast.
class StaleUnits final : public WrongLayers {
 public:
  using WrongLayers::WrongLayers;

 private:
  void reduce_layered(LayeredModel& model, GradSource&) override {
    swap_with_old();
    run(model, params_.gather, reduction_.buckets(), plan_executor_);
    swap_with_old();
  }
  void swap_with_old() {
    auto* const shard = static_cast<std::byte*>(params_.store.shard().data);
    auto* const old = static_cast<std::byte*>(old_.data());
    std::swap_ranges(old, old + old_.view().num_bytes(), shard);
  }
  void run_phase(Phase phase, GradSource& grads) override {
    if (phase != Phase::cast) return WrongLayers::run_phase(phase, grads);
    const TensorView shard = params_.store.shard();
    GuardedBuffer before(shard.numel, shard.dtype);
    if (shard.numel > 0)
      std::memcpy(before.data(), shard.data, static_cast<std::size_t>(shard.num_bytes()));
    WrongLayers::run_phase(phase, grads);
    old_ = std::move(before);
  }

  GuardedBuffer old_;
};

/// The range next to a unit whose tensors have the same lengths in order: two layers of one shape.
/// The unit itself if there is none.
FlatRange implementation_of(const FlatLayout& layout, const FlatRange& unit) {
  const std::vector<TensorSlot>& tensors = layout.tensors();
  const auto index = [&](std::int64_t begin) {
    return std::ranges::lower_bound(tensors, begin, {}, &TensorSlot::begin) - tensors.begin();
  };
  const std::ptrdiff_t first = index(unit.begin);
  const std::ptrdiff_t count = index(unit.end) - first;
  for (const std::ptrdiff_t other : {first + count, first - count}) {
    if (other < 0 || other + count > std::ssize(tensors)) continue;
    const auto here = tensors.begin() + first;
    const auto there = tensors.begin() + other;
    if (!std::ranges::equal(here, here + count, there, there + count, {}, &TensorSlot::numel,
                            &TensorSlot::numel))
      continue;
    return {there->begin, there->begin + unit.numel()};
  }
  return unit;
}

/// Two layers of one shape get each other's parameters.
class SwappedUnits final : public WrongLayers, private cuda::UnitGatherer {
 public:
  using WrongLayers::WrongLayers;

 private:
  void reduce_layered(LayeredModel& model, GradSource&) override {
    run(model, *this, reduction_.buckets(), plan_executor_);
  }
  void gather(const FlatRange& unit, const TensorView& full) override {
    params_.gather.gather(implementation_of(*layout_.setup.layout, unit), full);
  }
  std::int64_t version() const override { return params_.gather.version(); }
  using ProductionOptimizer::gather;
};

/// The unit that both passes share is freed when the forward pass ends.
class ReadAfterRelease final : public WrongLayers,
                               private cuda::UnitGatherer,
                               private cuda::PlanRunner {
 public:
  using WrongLayers::WrongLayers;

 private:
  void reduce_layered(LayeredModel& model, GradSource&) override {
    shared_ = model.visits().back();
    units_ = model.units();
    run(model, *this, reduction_.buckets(), *this);
  }
  void gather(const FlatRange& unit, const TensorView& full) override {
    params_.gather.gather(unit, full);
    if (unit.begin == units_[shared_].begin) shared_params_ = full;
  }
  std::int64_t version() const override { return params_.gather.version(); }
  void run(const StepPlan& plan, const cuda::PlanBody& body) override {
    plan_executor_.run(plan, [&](const cuda::PlanOp& op) {
      if (op.kind == OpKind::backward && op.target.index == shared_) poison(shared_params_);
      body(op);
    });
  }
  using ProductionOptimizer::gather;
  using WrongLayers::run;

  int shared_ = -1;
  std::vector<FlatRange> units_;
  TensorView shared_params_;
};

/// A gradient is overwritten before its reduction has read it.
class ReusedInFlight final : public WrongLayers, private cuda::BucketSink {
 public:
  using WrongLayers::WrongLayers;

 private:
  void reduce_layered(LayeredModel& model, GradSource&) override {
    run(model, params_.gather, *this, plan_executor_);
  }
  void reduce(std::size_t bucket, std::int64_t micro_step, const TensorView& grad) override {
    if (grad.data != nullptr) poison(grad);
    reduction_.buckets().reduce(bucket, micro_step, grad);
  }
  using ProductionOptimizer::reduce;
};

auto first_of(StepPlan& plan, OpKind kind) {
  return std::ranges::find_if(plan.ops, [kind](const cuda::PlanOp& op) { return op.kind == kind; });
}

/// A bucket is reduced before its unit is declared ready.
void reduce_early(StepPlan& plan) {
  const auto ready = first_of(plan, OpKind::ready);
  const auto reduce = first_of(plan, OpKind::reduce);
  if (ready < reduce) std::rotate(ready, reduce, reduce + 1);
}

/// The first reduction does not wait.
void do_not_wait(StepPlan& plan) {
  const auto reduce = first_of(plan, OpKind::reduce);
  if (reduce != plan.ops.end()) reduce->waits.clear();
}

/// A custom plan, audited like production's.
class WrongPlan final : public WrongLayers, private cuda::PlanRunner {
 public:
  WrongPlan(const FaultContext& context, void (*change)(StepPlan&))
      : WrongLayers(context), change_(change) {}

 private:
  void reduce_layered(LayeredModel& model, GradSource&) override {
    run(model, params_.gather, reduction_.buckets(), *this);
  }
  void run(const StepPlan& plan, const cuda::PlanBody& body) override {
    StepPlan wrong = plan;
    change_(wrong);
    cuda::require_sound(wrong);
    plan_executor_.run(wrong, body);
  }
  using WrongLayers::run;

  void (*const change_)(StepPlan&);
};

}  // namespace

std::unique_ptr<DistributedOptimizer> wrong_layers(std::string_view fault,
                                                   const FaultContext& context) {
  if (fault == "stale-unit") return std::make_unique<StaleUnits>(context);
  if (fault == "units-swapped") return std::make_unique<SwappedUnits>(context);
  if (fault == "unit-read-after-release") return std::make_unique<ReadAfterRelease>(context);
  if (fault == "buffer-reused-in-flight") return std::make_unique<ReusedInFlight>(context);
  if (fault == "bucket-reduced-early") return std::make_unique<WrongPlan>(context, reduce_early);
  if (fault == "reduction-does-not-wait") return std::make_unique<WrongPlan>(context, do_not_wait);
  return nullptr;
}

}  // namespace zeroproof::verification
