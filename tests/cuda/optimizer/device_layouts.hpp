#pragma once

#include <doctest.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string_view>

#include "common/base/exec.hpp"
#include "cuda/device/runtime/device.hpp"
#include "tests/support/skip.hpp"

namespace zeroproof::device_test {

inline const Exec exec;

/// With ZP_REQUIRE_GPU=1 a missing device is a failure: a run on a GPU must not pass by skipping.
inline bool usable() {
  const cuda::device::DeviceInfo& info = cuda::device::device_info();
  if (info.answers) return true;
  const char* required = std::getenv("ZP_REQUIRE_GPU");
  if (required != nullptr && std::string_view(required) == "1") {
    FAIL_CHECK(info.detail);
  } else {
    tests::skip_case(info.detail);
  }
  return false;
}

/// body(numel, offsets of up to five operands). Only some of these allow a kernel 16-byte accesses,
/// and some of those only after a few elements.
inline void for_each_layout(const std::function<void(std::int64_t, const int*)>& body) {
  constexpr int offsets[][5] = {{0, 0, 0, 0, 0}, {1, 1, 1, 1, 1}, {2, 2, 2, 2, 2}, {3, 3, 3, 3, 3},
                                {1, 5, 1, 5, 1}, {0, 1, 2, 3, 0}, {3, 2, 3, 3, 3}, {4, 0, 4, 0, 1}};
  for (const std::int64_t numel :
       {0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33, 1023, 1024, 1025, 70000}) {
    for (const int* layout : offsets) {
      CAPTURE(numel);
      CAPTURE(layout[0]);
      CAPTURE(layout[1]);
      body(numel, layout);
    }
  }
}

}  // namespace zeroproof::device_test
