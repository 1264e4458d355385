#pragma once
// State that the CUDA runtime and the simulated device both keep per host thread.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda/device/runtime/runtime.hpp"

namespace zeroproof::cuda::device {

/// Counters of this host thread, to be incremented.
DeviceCalls& counted_calls();

/// " in step 12", the step of this thread's last name_step(); empty without one.
std::string in_named_step();

/// Rejects invalid sizes. Errors: invalid_argument.
void require_allocation(std::int64_t num_bytes);
void require_copy(std::int64_t num_bytes);

/// Errors: invalid_argument below 0.
void require_local_rank(int local_rank);

/// Of the two ends of a measured interval. Errors: invalid_argument.
void require_recorded(bool both);

/// Errors: internal; `what` names the call: "waiting for a stream".
[[noreturn]] void refuse_in_capture(const char* what);

/// wait_for_stream() without a watch, and without filling staged host memory.
void wait_for_current_stream();

/// While this exists, keep_with_graph() on this thread adds to `kept`.
class CapturesInto {
 public:
  explicit CapturesInto(std::vector<std::shared_ptr<const void>>& kept);
  ~CapturesInto();
  CapturesInto(const CapturesInto&) = delete;
  CapturesInto& operator=(const CapturesInto&) = delete;
};

/// The stream that current_stream() returns on a thread without a UseStream.
std::shared_ptr<Stream::Queue> thread_queue();

}  // namespace zeroproof::cuda::device
