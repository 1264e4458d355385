#include "cuda/device/runtime/timed_event.hpp"

#include <chrono>

#include "cuda/device/runtime/calls.hpp"
#include "cuda/device/runtime/stream.hpp"
#include "cuda/device/sim/current.hpp"
#include "cuda/device/sim/streams.hpp"

namespace zeroproof::cuda::device {

struct TimedEvent::Mark {
  using Time = std::chrono::steady_clock::time_point;
  std::shared_ptr<Time> time;  ///< null: never recorded
  Event event;
};

TimedEvent::TimedEvent() : mark_(std::make_unique<Mark>()) {}
TimedEvent::~TimedEvent() = default;
TimedEvent::TimedEvent(TimedEvent&& other) noexcept = default;
TimedEvent& TimedEvent::operator=(TimedEvent&& other) noexcept = default;

void TimedEvent::record() {
  if (capturing()) refuse_in_capture("recording a timed event");
  mark_->time = std::make_shared<Mark::Time>();
  sim::enqueue([time = mark_->time] { *time = std::chrono::steady_clock::now(); });
  mark_->event.record();
}

double seconds_between(const TimedEvent& begin, const TimedEvent& end) {
  require_recorded(begin.mark().time != nullptr && end.mark().time != nullptr);
  wait_for_event(begin.mark().event);
  wait_for_event(end.mark().event);
  return std::chrono::duration<double>(*end.mark().time - *begin.mark().time).count();
}

}  // namespace zeroproof::cuda::device
