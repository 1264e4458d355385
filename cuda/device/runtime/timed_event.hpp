#pragma once
// Events in a stream that record a time. Needs no CUDA.

#include <memory>

namespace zeroproof::cuda::device {

/// Costs the device slightly more than an Event: for measurements only, not inside a graph.
class TimedEvent {
 public:
  TimedEvent();
  ~TimedEvent();
  TimedEvent(TimedEvent&& other) noexcept;
  TimedEvent& operator=(TimedEvent&& other) noexcept;

  /// Marks the end of the work that the current stream has so far. Errors: internal while a graph
  /// is captured.
  void record();

  struct Mark;
  const Mark& mark() const { return *mark_; }

 private:
  std::unique_ptr<Mark> mark_;
};

/// Waits until both events were reached; their streams belong to one device. A simulated device
/// uses the host's clock. Errors: those of the preceding work; invalid_argument if one event was
/// never recorded.
double seconds_between(const TimedEvent& begin, const TimedEvent& end);

}  // namespace zeroproof::cuda::device
