// Plants a fault according to its kind.

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "cuda/device/runtime/device.hpp"
#include "cuda/optimizer/production_optimizer.hpp"
#include "verification/cli/program/plant.hpp"
#include "verification/faults/catalogue.hpp"
#include "verification/faults/controls/wrapped_optimizer.hpp"
#include "verification/faults/planted/fault_context.hpp"

namespace zeroproof::verification {
namespace {

const Fault& known(std::string_view id) {
  const auto fault = std::ranges::find(fault_catalogue(), id, &Fault::id);
  ZP_CHECK(fault != fault_catalogue().end(), ErrorCode::internal,
           "the fault '" + std::string(id) + "' is not in the catalogue",
           "only listed faults have a case", "add it to verification/faults/catalogue.cpp");
  return *fault;
}

void require_planted(bool planted, const Fault& fault) {
  ZP_CHECK(planted, ErrorCode::internal,
           "no code plants the fault '" + std::string(fault.id) + "' as " +
               std::string(name(fault.kind)),
           "every kind has its own functions that plant",
           "plant it in verification/faults, or correct its kind");
}

void require_place(const Fault& fault, Space space, bool fused) {
  ZP_CHECK(fault.kind != FaultKind::operation, ErrorCode::unavailable,
           "the fault '" + std::string(fault.id) + "' cannot be planted in a step",
           "it is in an operation that no step of an optimizer calls",
           "use its case, which zeroproof explain prints");
  const bool for_device = fault.kind == FaultKind::device;
  ZP_CHECK(for_device || space == Space::host, ErrorCode::unavailable,
           "the fault '" + std::string(fault.id) + "' cannot be planted in a candidate on a device",
           "wrong implementations run on the host and cannot access device buffers",
           "use --impl host or host-fused");
  ZP_CHECK(!for_device || (space == Space::device && fused), ErrorCode::unavailable,
           "the fault '" + std::string(fault.id) +
               "' cannot be planted in a candidate that enqueues no steps",
           "it is one of streams, graphs and kernels, and needs the simulated device or a GPU",
           "use --impl device-fused --mode whole, or device-graph");
  if (for_device) cuda::device::require_device();
}

/// part: what a case of another suite runs.
void require_part(bool planted, const Fault& fault, const std::string& part) {
  ZP_CHECK(planted, ErrorCode::unavailable,
           "the fault '" + std::string(fault.id) + "' is not in " + part,
           "the case would run without it", "use its case, which zeroproof explain prints");
}

/// Keeps the data that the optimizer points to as long as the optimizer.
class Planted final : public WrappedOptimizer {
 public:
  Planted(std::unique_ptr<FaultContext> context, std::unique_ptr<DistributedOptimizer> inner)
      : WrappedOptimizer(std::move(inner), *context->setup.layout), context_(std::move(context)) {}
  ~Planted() override { inner_.reset(); }

  bool step(GradSource& leaves, StepObserver* observer) override {
    return inner_->step(leaves, observer);
  }

 private:
  std::unique_ptr<FaultContext> context_;
};

bool put_wrong_op(std::string_view fault, cuda::KernelTable& ops) {
  return put_wrong_adam(fault, ops) || put_wrong_sgd(fault, ops) || put_wrong_lion(fault, ops) ||
         put_wrong_lamb(fault, ops) || put_wrong_muon(fault, ops) || put_wrong_passes(fault, ops) ||
         put_wrong_scales(fault, ops);
}

std::unique_ptr<DistributedOptimizer> production(const FaultContext& context,
                                                 const cuda::MakeLocalStep& step) {
  return std::make_unique<cuda::ProductionOptimizer>(context.setup, context.space, context.ops,
                                                     step);
}

std::unique_ptr<DistributedOptimizer> production(const FaultContext& context) {
  return production(context, step_of<cuda::HostStep>(context));
}

std::unique_ptr<DistributedOptimizer> wrong_phase(const Fault& fault, const FaultContext& context) {
  for (const auto make :
       {wrong_prepare, wrong_unscale, wrong_norm, wrong_clip_groups, wrong_trust_ratio,
        wrong_matrices, wrong_update, wrong_params, wrong_scaled_cast, wrong_stored_state}) {
    if (const cuda::MakeLocalStep step = make(fault.id, context)) return production(context, step);
  }
  for (const auto make : {wrong_reduce, wrong_gather, wrong_offload}) {
    if (std::unique_ptr<DistributedOptimizer> made = make(fault.id, context)) return made;
  }
  require_planted(false, fault);
  return nullptr;
}

std::unique_ptr<DistributedOptimizer> make(const Fault& fault, FaultContext& context) {
  switch (fault.kind) {
    case FaultKind::setup:
      require_planted(set_up_wrongly(fault.id, context), fault);
      return production(context);
    case FaultKind::communicator:
      require_planted(connect_wrongly(fault.id, context), fault);
      return production(context);
    case FaultKind::layers:
      return wrong_layers(fault.id, context);
    case FaultKind::device:
      return wrong_device(fault.id, context);
    case FaultKind::implementation:
      return put_wrong_op(fault.id, context.ops) ? production(context)
                                                 : wrong_phase(fault, context);
    case FaultKind::state:
    case FaultKind::gradients:
    case FaultKind::buffers:
    case FaultKind::operation:  // require_place() refuses it
      break;
  }
  std::unique_ptr<DistributedOptimizer> inner = production(context);
  if (auto wrong = wrong_checkpoint(fault.id, context, inner)) return wrong;
  return surround(fault.id, context, inner);
}

}  // namespace

bool faults_built() { return true; }

std::unique_ptr<DistributedOptimizer> plant_fault(std::string_view id, const OptimizerSetup& setup,
                                                  Space space, bool fused, bool graphs) {
  const Fault& fault = known(id);
  require_place(fault, space, fused);
  auto context = std::make_unique<FaultContext>();
  context->setup = setup;
  context->space = space;
  context->fused = fused;
  context->graphs = graphs;
  context->ops = cuda::host_ops();
  std::unique_ptr<DistributedOptimizer> optimizer = make(fault, *context);
  require_planted(optimizer != nullptr, fault);
  return std::make_unique<Planted>(std::move(context), std::move(optimizer));
}

std::unique_ptr<LbfgsOptimizer> plant_fault(std::string_view id, const LbfgsSetup& setup) {
  const Fault& fault = known(id);
  std::unique_ptr<LbfgsOptimizer> optimizer = wrong_lbfgs(fault.id, setup);
  require_part(optimizer != nullptr, fault, "L-BFGS");
  return optimizer;
}

std::unique_ptr<Communicator> plant_fault(std::string_view id, Communicator& inner) {
  const Fault& fault = known(id);
  std::unique_ptr<Communicator> wrong = wrong_communicator(fault.id, inner);
  require_part(wrong != nullptr, fault, "a collective");
  return wrong;
}

cuda::KernelTable plant_fault(std::string_view id, const cuda::KernelTable& ops) {
  cuda::KernelTable wrong = ops;
  static_cast<void>(put_wrong_op(known(id).id, wrong));
  return wrong;
}

std::function<void(OpCall&)> plant_fault_in(std::string_view id, std::string_view operation) {
  const std::string_view fault = known(id).id;
  for (const auto make : {wrong_operation, wrong_calibration, wrong_master_split}) {
    if (auto wrong = make(fault, operation)) return wrong;
  }
  return {};
}

}  // namespace zeroproof::verification
