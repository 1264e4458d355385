#include "cuda/device/runtime/calls.hpp"

#include <thread>

#include "common/base/error.hpp"

namespace zeroproof::cuda::device {

namespace {

thread_local std::int64_t named_step = -1;
thread_local Stream* used_stream = nullptr;

}  // namespace

DeviceCalls& counted_calls() {
  thread_local DeviceCalls calls;
  return calls;
}

const DeviceCalls& device_calls() { return counted_calls(); }

void name_step(std::int64_t step) { named_step = step; }

std::string in_named_step() { return named_step < 0 ? "" : " in step " + std::to_string(named_step); }

void require_allocation(std::int64_t num_bytes) {
  ZP_CHECK(num_bytes > 0, ErrorCode::invalid_argument,
           "an allocation of " + std::to_string(num_bytes) + " bytes was asked for",
           "there is no memory of that size", "ask for 1 byte or more");
}

void require_copy(std::int64_t num_bytes) {
  ZP_CHECK(num_bytes >= 0, ErrorCode::invalid_argument,
           "a copy of " + std::to_string(num_bytes) + " bytes was asked for", "there is none of that size",
           "ask for 0 bytes or more");
}

void require_local_rank(int local_rank) {
  ZP_CHECK(local_rank >= 0, ErrorCode::invalid_argument,
           "a device was asked for rank " + std::to_string(local_rank) + " of a machine",
           "ranks of a machine count from 0", "pass the rank's number on its machine");
}

void refuse_in_capture(const char* what) {
  fail(ErrorCode::internal, std::string(what) + " was asked for while a graph is captured" + in_named_step(),
       "nothing of a graph has been done yet", "do it before the capture, or after a launch of the graph");
}

Stream& current_stream() {
  if (used_stream != nullptr) return *used_stream;
  thread_local Stream own(thread_queue());
  return own;
}

UseStream::UseStream(Stream& stream) : before_(used_stream) { used_stream = &stream; }

UseStream::~UseStream() { used_stream = before_; }

void wait_for_event(const Event& event, const std::function<void()>& meanwhile) {
  ++counted_calls().waits;
  while (!event.reached()) {
    if (meanwhile) meanwhile();
    std::this_thread::yield();
  }
}

}  // namespace zeroproof::cuda::device
