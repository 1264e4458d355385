// The device runtime of a build without nvcc. A call is an error.

#include "common/base/error.hpp"
#include "cuda/device/runtime/calls.hpp"
#include "cuda/device/runtime/device.hpp"
#include "cuda/device/runtime/runtime.hpp"
#include "cuda/device/runtime/timed_event.hpp"

namespace zeroproof::cuda::device {

namespace {

[[noreturn]] void runtime_not_compiled() {
  fail(ErrorCode::unavailable, "a device implementation was called",
       "this program has no device code",
       "build it with ZP_CUDA=ON, or use the host implementations");
}

}  // namespace

extern "C" void zp_runtime_not_compiled();
void zp_runtime_not_compiled() { runtime_not_compiled(); }

const DeviceInfo& device_info() {
  static const DeviceInfo info{false, false, false, "this program has no device code"};
  return info;
}

std::vector<ListedDevice> listed_devices() { return {}; }

// Each of these functions is an alias of zp_runtime_not_compiled, which reads no argument and does
// not return.
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wattribute-alias"
#endif
#define ZP_RUNTIME_NOT_COMPILED(name) \
  decltype(name) name __attribute__((alias("zp_runtime_not_compiled")));

ZP_RUNTIME_NOT_COMPILED(num_devices)
ZP_RUNTIME_NOT_COMPILED(choose_device)
ZP_RUNTIME_NOT_COMPILED(num_multiprocessors)
ZP_RUNTIME_NOT_COMPILED(device_allocate)
ZP_RUNTIME_NOT_COMPILED(pinned_allocate)
ZP_RUNTIME_NOT_COMPILED(shared_allocate)
ZP_RUNTIME_NOT_COMPILED(keep_on_host)
ZP_RUNTIME_NOT_COMPILED(enqueue_to_device)
ZP_RUNTIME_NOT_COMPILED(enqueue_to_host)
ZP_RUNTIME_NOT_COMPILED(enqueue_on_device)
ZP_RUNTIME_NOT_COMPILED(enqueue_fill)
ZP_RUNTIME_NOT_COMPILED(is_on_device)
ZP_RUNTIME_NOT_COMPILED(is_on_host)
ZP_RUNTIME_NOT_COMPILED(thread_queue)
ZP_RUNTIME_NOT_COMPILED(wait_for_current_stream)
ZP_RUNTIME_NOT_COMPILED(seconds_between)
ZP_RUNTIME_NOT_COMPILED(native_stream)

// Written out: classes whose constructors throw.
void device_release(void*) noexcept {}
void pinned_release(void*) noexcept {}
void shared_release(void*) noexcept {}

struct Stream::Queue {};
Stream::Stream() { runtime_not_compiled(); }
Stream::Stream(std::shared_ptr<Queue>) {
  runtime_not_compiled();
}  // NOLINT(performance-unnecessary-value-param)
Stream::~Stream() = default;
void Stream::wait_for(const Event&) { runtime_not_compiled(); }

struct Event::Mark {};
Event::Event() { runtime_not_compiled(); }
Event::~Event() = default;
Event::Event(Event&& other) noexcept = default;
Event& Event::operator=(Event&& other) noexcept = default;
void Event::record() { runtime_not_compiled(); }
bool Event::reached() const { runtime_not_compiled(); }

struct TimedEvent::Mark {};
TimedEvent::TimedEvent() { runtime_not_compiled(); }
TimedEvent::~TimedEvent() = default;
TimedEvent::TimedEvent(TimedEvent&& other) noexcept = default;
TimedEvent& TimedEvent::operator=(TimedEvent&& other) noexcept = default;
void TimedEvent::record() { runtime_not_compiled(); }

struct Graph::Recorded {};
bool capturing() { return false; }
Graph::Graph(const std::function<void()>&) { runtime_not_compiled(); }
Graph::~Graph() = default;
Graph::Graph(Graph&& other) noexcept = default;
Graph& Graph::operator=(Graph&& other) noexcept = default;
void Graph::launch() const { runtime_not_compiled(); }

}  // namespace zeroproof::cuda::device
