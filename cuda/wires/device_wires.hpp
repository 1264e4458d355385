#pragma once

#include <memory>

#include "common/step/distributed_optimizer.hpp"
#include "cuda/exchange/wires.hpp"
#include "cuda/wires/device_copies.hpp"
#include "cuda/wires/nccl_communicator.hpp"
#include "cuda/wires/nccl_library.hpp"

namespace zeroproof::cuda {

/// Device communicators over the groups of a setup. Collective over each of them.
class DeviceWires {
 public:
  /// What the setup refers to outlives this. Errors: those of make_device_copies, or of make_nccl_communicator and its
  /// library.
  explicit DeviceWires(const OptimizerSetup& setup)
      : comm_(over(setup.comm, setup.wires)),
        replicas_(over(setup.replicas, setup.wires)),
        tp_(over(setup.tp, setup.wires)) {}

  Wires wires() const { return {comm_.get(), replicas_.get(), tp_.get()}; }

 private:
  static std::unique_ptr<Communicator> over(Communicator* control, WireKind kind) {
    if (control == nullptr) return nullptr;
    if (kind == WireKind::copies) return make_device_copies(*control);
    return make_nccl_communicator(*control, shared_nccl());
  }

  std::unique_ptr<Communicator> comm_, replicas_, tp_;
};

}  // namespace zeroproof::cuda
