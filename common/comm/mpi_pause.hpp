#pragma once
// Waiting without an event to wait for (internal to the MPI communicator).

#include <algorithm>
#include <chrono>
#include <thread>

namespace zeroproof {

/// Gives the processor away between looks, as there may be more ranks than cores. Sleeps only after about 10
/// ms without news: MPI moves a long block a little with every look, and that does not show.
class Pause {
 public:
  void reset() { count_ = 0; }
  void operator()() {
    if (++count_ < looks_before_sleep) return std::this_thread::yield();
    const int excess = (count_ - looks_before_sleep) / 4;
    std::this_thread::sleep_for(std::chrono::microseconds(std::min(20 + excess, 200)));
  }

 private:
  static constexpr int looks_before_sleep = 10'000;
  int count_ = 0;
};

}  // namespace zeroproof
