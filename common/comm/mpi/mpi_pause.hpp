#pragma once
// Polling with back-off (internal to the MPI communicator).

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

namespace zeroproof {

/// Yields the processor between polls, and after some hundred polls, or as long as those take on an
/// idle machine, sleeps, ever longer: a core belongs to the rank with work, since there may be more
/// ranks than cores. On a busy machine every yield costs a time slice of all other processes, and
/// polling would take seconds. A poll costs one or two microseconds, so waits shorter than the
/// polling phase end at once, and longer ones about an eighth late at most.
class Pause {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Pause(int polls_before_sleep = 100) : polls_before_sleep_(polls_before_sleep) {}

  void reset() { *this = Pause(polls_before_sleep_); }

  /// Sleep before the next poll; 0: only yield.
  std::chrono::microseconds next(Clock::time_point now = Clock::now()) {
    if (polls_++ == 0) begin_ = now;
    if (polls_ < polls_before_sleep_ && now - begin_ <= polls_before_sleep_ * longest_poll)
      return {};
    polls_ = polls_before_sleep_;
    return std::exchange(sleep_, std::min(sleep_ + sleep_ / 8, longest));
  }

  void operator()() {
    const Clock::time_point now = Clock::now();
    if (now.time_since_epoch().count() < busy_until) polls_ = polls_before_sleep_;
    const std::chrono::microseconds length = next(now);
    if (length.count() > 0) return std::this_thread::sleep_for(length);
    std::this_thread::yield();
    const Clock::time_point back = Clock::now();
    if (back - now > turn_of_others) busy_until = (back + stays_busy).time_since_epoch().count();
  }

  static constexpr std::chrono::microseconds longest{1000};
  static constexpr std::chrono::microseconds longest_poll{5};
  /// A yield that returned so late is followed by a sleep of the same length: a sleeper is woken at
  /// once.
  static constexpr std::chrono::microseconds turn_of_others{500};
  static constexpr std::chrono::seconds stays_busy{1};

 private:
  static inline std::atomic<Clock::rep> busy_until{0};

  int polls_before_sleep_;
  int polls_ = 0;
  Clock::time_point begin_;
  std::chrono::microseconds sleep_{20};
};

}  // namespace zeroproof
