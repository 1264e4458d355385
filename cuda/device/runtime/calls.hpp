#pragma once
// What the CUDA runtime and the simulated device both keep for a host thread.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda/device/runtime/runtime.hpp"

namespace zeroproof::cuda::device {

/// Those of this host thread, to be counted up.
DeviceCalls& counted_calls();

/// " in step 12" as name_step() said on this thread, or nothing.
std::string in_named_step();

/// Refuses sizes that are none. Errors: invalid_argument.
void require_allocation(std::int64_t num_bytes);
void require_copy(std::int64_t num_bytes);

/// Errors: invalid_argument below 0.
void require_local_rank(int local_rank);

/// Of two marks whose distance is asked for. Errors: invalid_argument.
void require_recorded(bool both);

/// Errors: internal, with what was asked for: "waiting for a stream".
[[noreturn]] void refuse_in_capture(const char* what);

/// wait_for_stream() without a watch, and without anything that arrives.
void wait_for_current_stream();

/// What keep_with_graph() of this thread is given while this lives goes to `kept`.
class CapturesInto {
 public:
  explicit CapturesInto(std::vector<std::shared_ptr<const void>>& kept);
  ~CapturesInto();
  CapturesInto(const CapturesInto&) = delete;
  CapturesInto& operator=(const CapturesInto&) = delete;
};

/// The stream that current_stream() gives to a thread without a UseStream.
std::shared_ptr<Stream::Queue> thread_queue();

}  // namespace zeroproof::cuda::device
