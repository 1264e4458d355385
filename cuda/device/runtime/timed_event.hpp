#pragma once
// Marks in a stream that know when they were reached. Needs no CUDA.

#include <memory>

namespace zeroproof::cuda::device {

/// Costs the device a little more than an Event: for measurements alone. Not inside of a graph.
class TimedEvent {
 public:
  TimedEvent();
  ~TimedEvent();
  TimedEvent(TimedEvent&& other) noexcept;
  TimedEvent& operator=(TimedEvent&& other) noexcept;

  /// Marks the end of what the current stream has been given so far. Errors: internal while a graph is captured.
  void record();

  struct Mark;
  const Mark& mark() const { return *mark_; }

 private:
  std::unique_ptr<Mark> mark_;
};

/// Waits until both marks were reached. Their streams belong to one device. A simulated device takes the host's clock.
/// Errors: what went wrong in the work before; invalid_argument if one was never recorded.
double seconds_between(const TimedEvent& begin, const TimedEvent& end);

}  // namespace zeroproof::cuda::device
