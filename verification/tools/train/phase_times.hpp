#pragma once
// Durations of the phases of steps on one rank.

#include <array>
#include <chrono>
#include <functional>
#include <utility>

#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::verification {

/// An observer that measures the time between phases and passes every call on. The time of the next
/// observer is not counted.
class PhaseTimes final : public StepObserver {
 public:
  using Clock = std::chrono::steady_clock;
  using Look = std::function<void(Phase phase, const ExposedBuffer& buffer)>;

  explicit PhaseTimes(Look look = {}) : look_(std::move(look)) {}

  void begin() { last_ = Clock::now(); }

  void observe(Phase phase, const ExposedBuffer& buffer) override {
    seconds_[static_cast<std::size_t>(phase)] +=
        std::chrono::duration<double>(Clock::now() - last_).count();
    if (look_) look_(phase, buffer);
    last_ = Clock::now();
  }

  /// Of all steps so far.
  const std::array<double, all_phases.size()>& seconds() const { return seconds_; }

 private:
  Look look_;
  Clock::time_point last_;
  std::array<double, all_phases.size()> seconds_{};
};

}  // namespace zeroproof::verification
