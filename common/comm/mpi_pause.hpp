#pragma once
// Waiting without an event to wait for (internal to the MPI communicator).

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace zeroproof {

/// Gives the processor away between looks, and after some hundred of them sleeps, ever longer: a core belongs to the
/// rank that has work, as there may be more ranks than cores. Each look of a rank that waits costs a microsecond or
/// two, so what takes less than the looks is answered at once, and what takes longer about an eighth later than it
/// could be, at most.
class Pause {
 public:
  explicit Pause(int looks_before_sleep = 100) : looks_before_sleep_(looks_before_sleep) {}

  void reset() { *this = Pause(looks_before_sleep_); }

  /// How long to sleep before the next look; 0: only give the processor away.
  std::chrono::microseconds next() {
    if (++looks_ < looks_before_sleep_) return {};
    return std::exchange(sleep_, std::min(sleep_ + sleep_ / 8, longest));
  }

  void operator()() {
    const std::chrono::microseconds length = next();
    if (length.count() == 0) return std::this_thread::yield();
    std::this_thread::sleep_for(length);
  }

  static constexpr std::chrono::microseconds longest{1000};

 private:
  int looks_before_sleep_;
  int looks_ = 0;
  std::chrono::microseconds sleep_{20};
};

}  // namespace zeroproof
