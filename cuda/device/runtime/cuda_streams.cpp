#include <utility>

#include "cuda/device/runtime/calls.hpp"
#include "cuda/device/runtime/cuda_call.hpp"

namespace zeroproof::cuda::device {

struct Stream::Queue {
  cudaStream_t stream = nullptr;
  bool owned = false;
};

struct Event::Mark {
  cudaEvent_t event = nullptr;
  bool recorded = false;

  Mark() {
    check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event");
  }
  ~Mark() {
    if (cudaEventDestroy(event) != cudaSuccess) static_cast<void>(cudaGetLastError());
  }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
};

namespace {

bool capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(stream, &status), "checking whether a graph is captured");
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace

// One per host thread. The default stream orders none of it as long as no code uses the default
// stream.
std::shared_ptr<Stream::Queue> thread_queue() {
  auto queue = std::make_shared<Stream::Queue>();
  queue->stream = cudaStreamPerThread;
  return queue;
}

Stream::Stream() : queue_(std::make_shared<Queue>()) {
  check_cuda(cudaStreamCreateWithFlags(&queue_->stream, cudaStreamNonBlocking),
             "creating a stream");
  queue_->owned = true;
}

Stream::Stream(std::shared_ptr<Queue> queue) : queue_(std::move(queue)) {}

Stream::~Stream() {
  drop_kept();
  if (queue_->owned && cudaStreamDestroy(queue_->stream) != cudaSuccess)
    static_cast<void>(cudaGetLastError());
}

void Stream::wait_for(const Event& event) {
  if (!event.mark().recorded) return;
  check_cuda(cudaStreamWaitEvent(queue_->stream, event.mark().event, 0),
             "making a stream wait for an event");
}

Event::Event() : mark_(std::make_unique<Mark>()) {}
Event::~Event() = default;
Event::Event(Event&& other) noexcept = default;
Event& Event::operator=(Event&& other) noexcept = default;

void Event::record() {
  check_cuda(cudaEventRecord(mark_->event, current_cuda_stream()), "recording an event");
  mark_->recorded = true;
}

bool Event::reached() const {
  if (!mark_->recorded) return true;
  const cudaError_t status = cudaEventQuery(mark_->event);
  if (status == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());
    return false;
  }
  if (status == cudaErrorCapturedEvent) {
    static_cast<void>(cudaGetLastError());
    refuse_in_capture("querying an event");
  }
  check_cuda(status, "running the work before an event");
  return true;
}

cudaStream_t current_cuda_stream() { return current_stream().queue().stream; }

void* native_stream() { return current_cuda_stream(); }

bool capturing() { return capturing(current_cuda_stream()); }

void count_launch() { ++counted_calls().launches; }

void wait_for_current_stream() {
  ++counted_calls().waits;
  check_cuda(cudaStreamSynchronize(current_cuda_stream()), "running the work of a stream");
}

}  // namespace zeroproof::cuda::device
