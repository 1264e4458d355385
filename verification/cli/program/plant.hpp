#pragma once
// Production with a fault in it, in programs that have them (zeroproof-faults).

#include <functional>
#include <memory>
#include <string_view>

#include "common/contracts/lbfgs.hpp"
#include "cuda/distributed_optimizer.hpp"
#include "cuda/kernel_table.hpp"

namespace zeroproof::verification {

class OpCall;

/// True if this program was linked with the planted faults.
bool faults_built();

// Errors of all: unavailable in a program without planted faults, internal if the fault is not in the catalogue.

/// One rank of the production optimizer. graphs: its steps are replayed, on a device.
std::unique_ptr<DistributedOptimizer> plant_fault(std::string_view fault,
                                                  const OptimizerSetup& setup, Space space,
                                                  bool fused, bool graphs);

/// The communicator of a case with a fault of the transport, below the harness's copies of
/// messages; null if the fault is not in the transport.
std::unique_ptr<Communicator> plant_transport(std::string_view fault, Communicator& inner);

/// One rank of production L-BFGS.
std::unique_ptr<LbfgsOptimizer> plant_fault(std::string_view fault, const LbfgsSetup& setup);

/// A communicator that makes its calls through another one, which outlives it.
std::unique_ptr<Communicator> plant_fault(std::string_view fault, Communicator& inner);

/// The host implementations; as they are if the fault is in none of them.
cuda::KernelTable plant_fault(std::string_view fault, const cuda::KernelTable& ops);

/// The replacement of an operation's host implementation in single calls; empty if the fault is not
/// in it.
std::function<void(OpCall&)> plant_fault_in(std::string_view fault, std::string_view operation);

}  // namespace zeroproof::verification
