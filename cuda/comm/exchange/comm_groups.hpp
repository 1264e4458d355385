#pragma once

#include "common/comm/communicator.hpp"

namespace zeroproof::cuda {

/// What moves the data of a step between ranks: gradients and parameters, in the space where they lie. On the host they
/// are the communicators of the setup, which everything that the host itself has to know goes through in any case.
struct CommGroups {
  Communicator* comm = nullptr;  ///< ranks the state is sharded over
  Communicator* replicas =
      nullptr;  ///< ranks of the other instances that own the same shard; null: one instance
  Communicator* tp = nullptr;  ///< ranks that have other parts of the same tensors; null: one
};

}  // namespace zeroproof::cuda
