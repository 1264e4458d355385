#pragma once

#include <chrono>
#include <map>
#include <string>

namespace zp_fake_nccl {

/// Planned failures (fake_nccl.hpp).
struct Plan {
  std::string fail_call;
  int fail_number = 0, fail_rank = 0;
  int stall_rank = -1, stall_number = 0;
  int async_rank = -1, async_number = 0;
  std::chrono::milliseconds patience{3'600'000};
  int version = 22809;
  int ranks_per_device = 1 << 20;
};

/// Ends the process if the plan is malformed: the test would run without the intended failures.
Plan read_plan(const std::string& text);

}  // namespace zp_fake_nccl
