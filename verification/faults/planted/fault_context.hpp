#pragma once
// Context of a planted optimizer, and the functions that plant. Each function handles the faults of
// one kind and returns whether (or what) it has planted.

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "common/contracts/lbfgs.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "cuda/distributed_optimizer.hpp"
#include "cuda/kernel_table.hpp"
#include "cuda/optimizer/host/host_step.hpp"

namespace zeroproof::verification {

class OpCall;

/// Everything the setup and the optimizer point to and the run does not own.
struct FaultContext {
  OptimizerSetup setup;
  Space space = Space::host;
  bool fused = false;
  bool graphs = false;
  cuda::KernelTable ops;
  std::vector<std::unique_ptr<Communicator>> groups;
  std::unique_ptr<ShardMap> shards;
};

bool set_up_wrongly(std::string_view fault, FaultContext& context);
bool connect_wrongly(std::string_view fault, FaultContext& context);

/// A communicator over another one; null if the fault is in no single collective.
std::unique_ptr<Communicator> wrong_communicator(std::string_view fault, Communicator& inner);

/// The optimizer wrapped with wrong states, gradients or buffers; null if the fault is none of
/// those.
std::unique_ptr<DistributedOptimizer> surround(std::string_view fault, const FaultContext& context,
                                               std::unique_ptr<DistributedOptimizer>& inner);

/// An optimizer that saves or loads a wrong state; null if the fault is none of those.
std::unique_ptr<DistributedOptimizer> wrong_checkpoint(
    std::string_view fault, const FaultContext& context,
    std::unique_ptr<DistributedOptimizer>& inner);

/// Production whose layers run over a wrong gatherer, sink or plan; null if the fault is none of those.
std::unique_ptr<DistributedOptimizer> wrong_layers(std::string_view fault,
                                                   const FaultContext& context);

/// Production on a device with a replaced step, stream or wait; null if the fault is none of those.
std::unique_ptr<DistributedOptimizer> wrong_device(std::string_view fault,
                                                   const FaultContext& context);

// Wrong implementations of operations, written into the passed table.
bool put_wrong_adam(std::string_view fault, cuda::KernelTable& ops);
bool put_wrong_sgd(std::string_view fault, cuda::KernelTable& ops);
bool put_wrong_lion(std::string_view fault, cuda::KernelTable& ops);
bool put_wrong_lamb(std::string_view fault, cuda::KernelTable& ops);
bool put_wrong_muon(std::string_view fault, cuda::KernelTable& ops);
bool put_wrong_passes(std::string_view fault, cuda::KernelTable& ops);
bool put_wrong_scales(std::string_view fault, cuda::KernelTable& ops);

// A wrong implementation of an operation outside the step: of a model, a calibration or a split
// master; empty if the fault is none of those.
std::function<void(OpCall&)> wrong_operation(std::string_view fault, std::string_view operation);
std::function<void(OpCall&)> wrong_calibration(std::string_view fault, std::string_view operation);
std::function<void(OpCall&)> wrong_master_split(std::string_view fault, std::string_view operation);

// Wrong implementations of phases: production, or its step, with one replaced phase; null if the
// fault is in another phase.
std::unique_ptr<DistributedOptimizer> wrong_reduce(std::string_view fault,
                                                   const FaultContext& context);
std::unique_ptr<DistributedOptimizer> wrong_gather(std::string_view fault,
                                                   const FaultContext& context);
std::unique_ptr<DistributedOptimizer> wrong_offload(std::string_view fault,
                                                    const FaultContext& context);
cuda::MakeLocalStep wrong_prepare(std::string_view fault, const FaultContext& context);
cuda::MakeLocalStep wrong_unscale(std::string_view fault, const FaultContext& context);
cuda::MakeLocalStep wrong_norm(std::string_view fault, const FaultContext& context);
cuda::MakeLocalStep wrong_clip_groups(std::string_view fault, const FaultContext& context);
cuda::MakeLocalStep wrong_trust_ratio(std::string_view fault, const FaultContext& context);
cuda::MakeLocalStep wrong_matrices(std::string_view fault, const FaultContext& context);
cuda::MakeLocalStep wrong_update(std::string_view fault, const FaultContext& context);
cuda::MakeLocalStep wrong_params(std::string_view fault, const FaultContext& context);
cuda::MakeLocalStep wrong_scaled_cast(std::string_view fault, const FaultContext& context);
cuda::MakeLocalStep wrong_stored_state(std::string_view fault, const FaultContext& context);

/// Returns steps of a class, HostStep or a derived class. args are passed to the constructor, after
/// those of HostStep.
template <class Step, class... Args>
cuda::MakeLocalStep step_of(const FaultContext& context, const Args&... args) {
  return [&context, args...](cuda::RankShard& shard) {
    return std::make_unique<Step>(shard, context.fused, context.ops, args...);
  };
}

std::unique_ptr<LbfgsOptimizer> wrong_lbfgs(std::string_view fault, const LbfgsSetup& setup);

}  // namespace zeroproof::verification
