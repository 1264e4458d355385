#pragma once

#include <chrono>
#include <cstdint>

#include "verification/tools/trace/trace.hpp"

namespace zeroproof::verification {

/// Nanoseconds since its construction; shared by all ranks of a trace.
class TraceClock {
 public:
  std::int64_t now_ns() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() -
                                                                begin_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace zeroproof::verification
