// Streams that do not wait for each other where they must. The simulated device runs only that work
// of other streams that an event requires, so that a missing event gives the wrong order every
// time.

#include <exception>
#include <memory>
#include <vector>

#include "cuda/optimizer/overlap/stream_executor.hpp"
#include "verification/faults/device/wrong_step.hpp"

namespace zeroproof::verification {
namespace {

using cuda::OpKind;
using cuda::ProductionOptimizer;
using cuda::device::Event;
using cuda::device::Stream;
using cuda::device::UseStream;

/// Gradients are freed without a wait.
void free_at_once(cuda::StepPlan& plan) {
  for (cuda::PlanOp& op : plan.ops) {
    if (op.kind == OpKind::free) op.waits.clear();
  }
}

/// A forward visit does not wait; later work does.
void forward_at_once(cuda::StepPlan& plan) {
  std::vector<int> left_out;
  for (cuda::PlanOp& op : plan.ops) {
    if (op.stream != cuda::PlanStream::compute) continue;
    if (op.kind == OpKind::check_version || op.kind == OpKind::forward) {
      left_out.insert(left_out.end(), op.waits.begin(), op.waits.end());
      op.waits.clear();
    } else if (op.kind == OpKind::release || op.kind == OpKind::backward) {
      op.waits.insert(op.waits.end(), left_out.begin(), left_out.end());
      left_out.clear();
    }
  }
}

/// A custom plan that is not audited.
class WrongWaits final : public cuda::PlanRunner {
 public:
  explicit WrongWaits(void (*change)(cuda::StepPlan&)) : change_(change) {}

  void run(const cuda::StepPlan& plan, const cuda::PlanBody& body) override {
    cuda::StepPlan wrong = plan;
    change_(wrong);
    streams_.run(wrong, body);
  }

 private:
  void (*const change_)(cuda::StepPlan&);
  cuda::StreamExecutor streams_;
};

class Production : public ProductionOptimizer {
 public:
  Production(const OptimizerSetup& setup, const cuda::MakeLocalStep& step,
             const cuda::CommGroups& transport)
      : ProductionOptimizer(setup, Space::device, cuda::host_ops(), step, transport) {}
};

template <void (*change)(cuda::StepPlan&)>
class Planned final : public Production {
 public:
  template <class... Args>
  explicit Planned(const Args&... args) : Production(args...) {
    reduction_.use_runner(std::make_unique<WrongWaits>(change));
  }
};

/// Gathers on a separate stream.
class GatherAside : public Production {
 public:
  using Production::Production;
  /// Work enqueued earlier still uses buffers that are about to be released.
  ~GatherAside() override {
    const UseStream use(aside_);
    try {
      cuda::device::wait_for_stream();
    } catch (const std::exception&) {  // the error was already reported by the wait for the step
    }
  }

 protected:
  void gather_aside() {
    const UseStream use(aside_);
    ProductionOptimizer::gather();
    gathered_.record();
  }

  Stream aside_;
  Event updated_, gathered_;
};

/// It does not wait for the update; all later work waits for it.
class GatherBeforeUpdate final : public GatherAside {
  using GatherAside::GatherAside;
  void gather() override {
    if (!loaded_) return ProductionOptimizer::gather();
    gather_aside();
    cuda::device::wait_for_event(gathered_);
  }
};

/// It waits for the update; no later work waits for it.
class GatherLeftAlone final : public GatherAside {
  using GatherAside::GatherAside;
  void gather() override {
    if (!loaded_) return ProductionOptimizer::gather();
    updated_.record();
    aside_.wait_for(updated_);
    gather_aside();
  }
};

template <class Optimizer>
std::unique_ptr<DistributedOptimizer> with_inner(const FaultContext& context) {
  return on_device(context, {.step = nullptr, .inner = [](const auto&... args) {
                               return std::make_unique<Optimizer>(args...);
                             }});
}

/// Integers exchanged by ranks go through a stream that the decision does not wait for.
class IntegersLeftAlone final : public cuda::DeviceStep {
 public:
  using DeviceStep::DeviceStep;
  ~IntegersLeftAlone() override {
    const UseStream use(aside_);
    try {
      cuda::device::wait_for_stream();
    } catch (const std::exception&) {
    }
  }

 private:
  void enqueue_integers() const override {
    found_.record();
    aside_.wait_for(found_);
    const UseStream use(aside_);
    DeviceStep::enqueue_integers();
  }

  mutable Stream aside_;
  mutable Event found_;
};

}  // namespace

std::unique_ptr<DistributedOptimizer> wrong_streams(std::string_view fault,
                                                    const FaultContext& context) {
  if (fault == "grad-freed-before-reduced") return with_inner<Planned<free_at_once>>(context);
  if (fault == "forward-before-gather") return with_inner<Planned<forward_at_once>>(context);
  if (fault == "gather-before-update") return with_inner<GatherBeforeUpdate>(context);
  if (fault == "gather-not-waited-for") return with_inner<GatherLeftAlone>(context);
  if (fault == "integers-not-waited-for") {
    return on_device(context,
                     {.step = device_step_of<IntegersLeftAlone>(context), .inner = nullptr});
  }
  return nullptr;
}

}  // namespace zeroproof::verification
