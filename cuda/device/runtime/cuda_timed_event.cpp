#include "common/base/error.hpp"
#include "cuda/device/runtime/calls.hpp"
#include "cuda/device/runtime/cuda_call.hpp"
#include "cuda/device/runtime/timed_event.hpp"

namespace zeroproof::cuda::device {

struct TimedEvent::Mark {
  cudaEvent_t event = nullptr;
  bool recorded = false;

  Mark() { check_cuda(cudaEventCreate(&event), "creating a timed event"); }
  ~Mark() {
    if (cudaEventDestroy(event) != cudaSuccess) static_cast<void>(cudaGetLastError());
  }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
};

TimedEvent::TimedEvent() : mark_(std::make_unique<Mark>()) {}
TimedEvent::~TimedEvent() = default;
TimedEvent::TimedEvent(TimedEvent&& other) noexcept = default;
TimedEvent& TimedEvent::operator=(TimedEvent&& other) noexcept = default;

void TimedEvent::record() {
  if (capturing()) refuse_in_capture("recording a timed event");
  check_cuda(cudaEventRecord(mark_->event, current_cuda_stream()), "recording a timed event");
  mark_->recorded = true;
}

double seconds_between(const TimedEvent& begin, const TimedEvent& end) {
  require_recorded(begin.mark().recorded && end.mark().recorded);
  ++counted_calls().waits;
  check_cuda(cudaEventSynchronize(begin.mark().event), "running the work before an event");
  check_cuda(cudaEventSynchronize(end.mark().event), "running the work before an event");
  float milliseconds = 0;
  check_cuda(cudaEventElapsedTime(&milliseconds, begin.mark().event, end.mark().event),
             "getting the elapsed time");
  return static_cast<double>(milliseconds) * 1e-3;
}

}  // namespace zeroproof::cuda::device
