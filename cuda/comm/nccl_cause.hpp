#pragma once
// The reason why a call did not end. Needs neither nccl.h nor CUDA.

#include <chrono>
#include <cstdint>
#include <string>

#include "common/base/error.hpp"
#include "common/base/span.hpp"
#include "common/comm/communicator.hpp"

namespace zeroproof::cuda {

struct NcclCause {
  Error error;
  bool found = false;  ///< an invalid call or an absent rank; else a device or a link hangs
};

/// Collective over `ranks`, those of the communicator `name`: compares their calls
/// (NcclCalls::numbers) one by one from the first that has not ended on all ranks, and reports
/// which rank disagrees, which is absent, or that all calls agree. A rank that cannot be reached is
/// the error that `ranks` reports, within its own time limit.
NcclCause find_cause(Communicator& ranks, Span<const std::int64_t> numbers, const std::string& name,
                     std::chrono::milliseconds limit);

}  // namespace zeroproof::cuda
