#pragma once
// Why a call did not end. Needs neither nccl.h nor CUDA.

#include <chrono>
#include <cstdint>
#include <string>

#include "common/base/error.hpp"
#include "common/base/span.hpp"
#include "common/comm/communicator.hpp"

namespace zeroproof::cuda {

struct NcclCause {
  Error error;
  bool found =
      false;  ///< a rank that did wrong, or is not there; else all do the same, and a device or a link hangs
};

/// Collective over `ranks`, those of the communicator `name`: compares what they have called (NcclCalls::numbers), call
/// by call from the first that has not ended everywhere, and says who disagrees, who is absent, or that all did the
/// same. A rank that cannot be reached is the error that `ranks` reports, within its own time limit.
NcclCause find_cause(Communicator& ranks, Span<const std::int64_t> numbers, const std::string& name,
                     std::chrono::milliseconds limit);

}  // namespace zeroproof::cuda
