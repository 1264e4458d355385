#pragma once
// Waiting without an event to wait for (internal to the MPI communicator).

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

namespace zeroproof {

/// Gives the processor away between looks, and after some hundred of them, or as long as those take where nobody else
/// wants it, sleeps, ever longer: a core belongs to the rank that has work, as there may be more ranks than cores. On a
/// machine that is busy each giving away costs a turn of everybody else, and the looks would take seconds. Each look of
/// a rank that waits costs a microsecond or two, so what takes less than the looks is answered at once, and what takes
/// longer about an eighth later than it could be, at most.
class Pause {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Pause(int looks_before_sleep = 100) : looks_before_sleep_(looks_before_sleep) {}

  void reset() { *this = Pause(looks_before_sleep_); }

  /// How long to sleep before the next look; 0: only give the processor away.
  std::chrono::microseconds next(Clock::time_point now = Clock::now()) {
    if (looks_++ == 0) begin_ = now;
    if (looks_ < looks_before_sleep_ && now - begin_ <= looks_before_sleep_ * longest_look)
      return {};
    looks_ = looks_before_sleep_;
    return std::exchange(sleep_, std::min(sleep_ + sleep_ / 8, longest));
  }

  void operator()() {
    const Clock::time_point now = Clock::now();
    if (now.time_since_epoch().count() < busy_until) looks_ = looks_before_sleep_;
    const std::chrono::microseconds length = next(now);
    if (length.count() > 0) return std::this_thread::sleep_for(length);
    std::this_thread::yield();
    const Clock::time_point back = Clock::now();
    if (back - now > turn_of_others) busy_until = (back + stays_busy).time_since_epoch().count();
  }

  static constexpr std::chrono::microseconds longest{1000};
  static constexpr std::chrono::microseconds longest_look{5};
  /// Who gave the processor away and got it back so late does better to sleep, for as long: a sleeper is woken at once.
  static constexpr std::chrono::microseconds turn_of_others{500};
  static constexpr std::chrono::seconds stays_busy{1};

 private:
  static inline std::atomic<Clock::rep> busy_until{0};

  int looks_before_sleep_;
  int looks_ = 0;
  Clock::time_point begin_;
  std::chrono::microseconds sleep_{20};
};

}  // namespace zeroproof
