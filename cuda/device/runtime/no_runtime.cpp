// The runtime of a program that was built without CUDA.

#include "common/base/error.hpp"
#include "cuda/device/runtime/calls.hpp"
#include "cuda/device/runtime/timed_event.hpp"

namespace zeroproof::cuda::device {

struct Stream::Queue {};
struct Event::Mark {};
struct Graph::Recorded {};
struct TimedEvent::Mark {};

namespace {

[[noreturn]] void no_device() {
  fail(ErrorCode::unavailable, "the runtime of a device was called", "this program has no device code",
       "build it with ZP_CUDA=ON, or use the host twins");
}

}  // namespace

int num_devices() { no_device(); }
int choose_device(int) { no_device(); }
int num_multiprocessors() { no_device(); }

void* device_allocate(std::int64_t) { no_device(); }
void device_release(void*) noexcept {}
void* pinned_allocate(std::int64_t) { no_device(); }
void pinned_release(void*) noexcept {}
void* shared_allocate(std::int64_t) { no_device(); }
void keep_on_host(void*, std::int64_t) { no_device(); }
void shared_release(void*) noexcept {}
void enqueue_to_device(void*, const void*, std::int64_t) { no_device(); }
void enqueue_to_host(void*, const void*, std::int64_t) { no_device(); }
void enqueue_on_device(void*, const void*, std::int64_t) { no_device(); }
void enqueue_fill(void*, unsigned char, std::int64_t) { no_device(); }
bool lies_on_device(const void*) { no_device(); }
bool lies_on_host(const void*) { no_device(); }

std::shared_ptr<Stream::Queue> thread_queue() { no_device(); }
Stream::Stream() { no_device(); }
Stream::Stream(std::shared_ptr<Queue>) { no_device(); }  // NOLINT(performance-unnecessary-value-param)
Stream::~Stream() = default;
void Stream::wait_for(const Event&) { no_device(); }
Event::Event() { no_device(); }
Event::~Event() = default;
Event::Event(Event&& other) noexcept = default;
Event& Event::operator=(Event&& other) noexcept = default;
void Event::record() { no_device(); }
bool Event::reached() const { no_device(); }
void wait_for_current_stream() { no_device(); }

TimedEvent::TimedEvent() { no_device(); }
TimedEvent::~TimedEvent() = default;
TimedEvent::TimedEvent(TimedEvent&& other) noexcept = default;
TimedEvent& TimedEvent::operator=(TimedEvent&& other) noexcept = default;
void TimedEvent::record() { no_device(); }
double seconds_between(const TimedEvent&, const TimedEvent&) { no_device(); }

void* native_stream() { no_device(); }

bool capturing() { return false; }
Graph::Graph(const std::function<void()>&) { no_device(); }
Graph::~Graph() = default;
Graph::Graph(Graph&& other) noexcept = default;
Graph& Graph::operator=(Graph&& other) noexcept = default;
void Graph::launch() const { no_device(); }

}  // namespace zeroproof::cuda::device
