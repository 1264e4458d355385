#pragma once

#include <memory>

#include "common/step/distributed_optimizer.hpp"
#include "cuda/exchange/wires.hpp"
#include "cuda/wires/device_copies.hpp"

namespace zeroproof::cuda {

/// Device communicators over the groups of a setup. Collective over each of them.
class DeviceWires {
 public:
  /// What the setup refers to outlives this. Errors: those of make_device_copies.
  explicit DeviceWires(const OptimizerSetup& setup)
      : comm_(over(setup.comm)), replicas_(over(setup.replicas)), tp_(over(setup.tp)) {}

  Wires wires() const { return {comm_.get(), replicas_.get(), tp_.get()}; }

 private:
  static std::unique_ptr<Communicator> over(Communicator* control) {
    return control == nullptr ? nullptr : make_device_copies(*control);
  }

  std::unique_ptr<Communicator> comm_, replicas_, tp_;
};

}  // namespace zeroproof::cuda
