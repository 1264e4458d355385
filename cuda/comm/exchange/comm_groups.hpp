#pragma once

#include "common/comm/communicator.hpp"

namespace zeroproof::cuda {

/// Communicators that move the data of a step between ranks: gradients and parameters, in the space
/// that holds them. On the host they are the communicators of the setup, which always carry the
/// data that the host itself needs.
struct CommGroups {
  Communicator* comm = nullptr;  ///< ranks that share the state
  Communicator* replicas =
      nullptr;  ///< ranks of the other instances with the same shard; null: one instance
  Communicator* tp = nullptr;  ///< ranks with other parts of the same tensors; null: one
};

}  // namespace zeroproof::cuda
