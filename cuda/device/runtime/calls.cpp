#include "cuda/device/runtime/calls.hpp"

#include <thread>
#include <utility>

#include "common/base/error.hpp"
#include "cuda/device/runtime/device.hpp"
#include "cuda/device/runtime/staging.hpp"

namespace zeroproof::cuda::device {

namespace {

thread_local std::int64_t named_step = -1;
thread_local Stream* used_stream = nullptr;
thread_local const MakeWatch* watched_by = nullptr;
thread_local std::vector<std::shared_ptr<const void>>* kept_with_graph = nullptr;

bool waits_are_watched() { return watched_by != nullptr && *watched_by; }

void wait_for_all_so_far() {
  Event end;
  end.record();
  wait_for_event(end);
}

}  // namespace

void require_device() {
  const DeviceInfo& info = device_info();
  ZP_CHECK(info.answers, ErrorCode::unavailable,
           "no CUDA device can run the device implementations: " + info.detail,
           "a device implementation was selected",
           "use --impl host, or run on a machine with a device of compute capability 8.0");
}

DeviceInfo info_of(const ListedDevice& device) {
  const std::string text = device.name + ", compute capability " + std::to_string(device.major) +
                           "." + std::to_string(device.minor);
  if (device.is_usable()) return {true, true, false, text};
  return {true, false, false,
          "no usable CUDA device: " + text + ", but " + std::to_string(ListedDevice::oldest_major) +
              ".0 or newer is needed"};
}

DeviceCalls& counted_calls() {
  thread_local DeviceCalls calls;
  return calls;
}

const DeviceCalls& device_calls() { return counted_calls(); }

void name_step(std::int64_t step) { named_step = step; }

std::string in_named_step() {
  return named_step < 0 ? "" : " in step " + std::to_string(named_step);
}

void require_allocation(std::int64_t num_bytes) {
  ZP_CHECK(num_bytes > 0, ErrorCode::invalid_argument,
           "cannot allocate " + std::to_string(num_bytes) + " bytes",
           "an allocation has at least 1 byte", "pass 1 or more");
}

void require_copy(std::int64_t num_bytes) {
  ZP_CHECK(num_bytes >= 0, ErrorCode::invalid_argument,
           "cannot copy " + std::to_string(num_bytes) + " bytes", "a size is not negative",
           "pass 0 or more");
}

void require_local_rank(int local_rank) {
  ZP_CHECK(local_rank >= 0, ErrorCode::invalid_argument,
           "no device for local rank " + std::to_string(local_rank), "local ranks start at 0",
           "pass the rank's number on its machine");
}

void require_recorded(bool both) {
  ZP_CHECK(both, ErrorCode::invalid_argument,
           "elapsed time between two events, one of which was never recorded",
           "both ends must be recorded", "record both events first");
}

void refuse_in_capture(const char* what) {
  fail(ErrorCode::internal,
       std::string(what) + " is not allowed while a graph is captured" + in_named_step(),
       "captured work has not run yet",
       "do this before the capture, or after a launch of the graph");
}

CapturesInto::CapturesInto(std::vector<std::shared_ptr<const void>>& kept) {
  kept_with_graph = &kept;
}

CapturesInto::~CapturesInto() { kept_with_graph = nullptr; }

void keep_with_graph(std::shared_ptr<const void> what) {
  ZP_CHECK(kept_with_graph != nullptr, ErrorCode::internal,
           "keep_with_graph() called outside graph capture", "no graph can own the object",
           "call it inside the body of a Graph");
  kept_with_graph->push_back(std::move(what));
}

void Stream::drop_kept() {
  if (kept_.empty()) return;
  const UseStream inside(*this);
  kept_.clear();
}

Stream& current_stream() {
  if (used_stream != nullptr) return *used_stream;
  thread_local Stream own(thread_queue());
  return own;
}

UseStream::UseStream(Stream& stream) : before_(used_stream) { used_stream = &stream; }

UseStream::~UseStream() { used_stream = before_; }

WatchWaits::WatchWaits(const MakeWatch& make) : before_(watched_by) { watched_by = &make; }

WatchWaits::~WatchWaits() { watched_by = before_; }

void wait_for_event(const Event& event, const std::function<void()>& meanwhile) {
  if (!meanwhile && waits_are_watched()) return wait_for_event(event, (*watched_by)());
  ++counted_calls().waits;
  while (!event.reached()) {
    if (meanwhile) meanwhile();
    std::this_thread::yield();
  }
}

void wait_for_stream() {
  if (capturing()) refuse_in_capture("waiting for a stream");
  Staging& staging = current_stream().kept<Staging>();
  try {
    waits_are_watched() ? wait_for_all_so_far() : wait_for_current_stream();
  } catch (...) {
    staging.forget();
    throw;
  }
  staging.arrived();
}

}  // namespace zeroproof::cuda::device
