#pragma once
// Checks of the elementary functions, on the host and on a device.

#include <array>

#include "common/contracts/elementary.hpp"
#include "tests/cuda/device_place.hpp"
#include "tests/cuda/expect_error.hpp"

namespace zeroproof::tests {

inline constexpr float infinite = __builtin_inff();

/// In the order of the contract: exp, tanh, sigmoid, erf, log. All have one type.
using ElementaryImplementations = std::array<ElementaryExpFn*, 5>;

struct KnownValue {
  int function;
  float x;
  float y;
};

/// Each y was rounded from 50 digits, but for two of sigmoid: 1 / (1 + exp(-x)) in fp64 is the middle between two fp32
/// values there, and the even one of them is not the nearest (R23).
inline const std::vector<KnownValue>& known_values() {
  static const float nan = std::nanf("");
  static const std::vector<KnownValue> all = {
      {0, 1.0F, 0x1.5bf0a8p+1F},
      {0, -2.0F, 0x1.152aaap-3F},
      {0, 88.5F, 0x1.99b988p+127F},
      {0, -103.0F, 0x1p-149F},
      {0, 89.0F, infinite},
      {0, -104.0F, 0.0F},
      {0, 0.0F, 1.0F},
      {0, -0.0F, 1.0F},
      {0, infinite, infinite},
      {0, -infinite, 0.0F},
      {0, nan, nan},
      {1, 0.5F, 0x1.d9353ep-2F},
      {1, -3.0F, -0x1.fd77d2p-1F},
      {1, 8.0F, 0x1.fffff8p-1F},
      {1, 0x1p-149F, 0x1p-149F},
      {1, -0.0F, -0.0F},
      {1, 0.0F, 0.0F},
      {1, infinite, 1.0F},
      {1, -infinite, -1.0F},
      {1, nan, nan},
      {2, 1.0F, 0x1.764d5p-1F},
      {2, -4.0F, 0x1.26afa2p-6F},
      {2, -88.0F, 0x1.07b71p-127F},
      {2, -0x1.8p-23F, 0x1.fffffcp-2F},
      {2, 0x1.8p-22F, 0x1.000004p-1F},
      {2, 0.0F, 0.5F},
      {2, -0.0F, 0.5F},
      {2, infinite, 1.0F},
      {2, -infinite, 0.0F},
      {2, nan, nan},
      {3, 0.5F, 0x1.0a7ef6p-1F},
      {3, -1.5F, -0x1.eea556p-1F},
      {3, 3.0F, 0x1.fffd1ap-1F},
      {3, 0x1p-9F, 0x1.20dd5cp-9F},
      {3, -0.0F, -0.0F},
      {3, infinite, 1.0F},
      {3, -infinite, -1.0F},
      {3, nan, nan},
      {4, 2.0F, 0x1.62e43p-1F},
      {4, 10.0F, 0x1.26bb1cp+1F},
      {4, 0.75F, -0x1.269622p-2F},
      {4, 0x1p-149F, -0x1.9d1dap+6F},
      {4, 1.0F, 0.0F},
      {4, 0.0F, -infinite},
      {4, -0.0F, -infinite},
      {4, -1.0F, nan},
      {4, -infinite, nan},
      {4, infinite, infinite},
      {4, nan, nan},
  };
  return all;
}

inline void check_known_values(const ElementaryImplementations& implementations, const Exec& exec) {
  for (const KnownValue& known : known_values()) {
    CAPTURE(known.function);
    CAPTURE(known.x);
    const std::vector<float> x(19, known.x);  // vector body and tail
    std::vector<float> y(19, 7.0F);
    implementations[known.function](exec, x, y);
    for (const float value : y) CHECK(device_test::same(value, known.y));
  }
}

inline void check_elementary_refused(const ElementaryImplementations& implementations,
                                     const Exec& exec) {
  std::vector<float> three(3), four(4);
  for (ElementaryExpFn* implementation : implementations) {
    expect_error(ErrorCode::invalid_argument, [&] { implementation(exec, three, four); });
    implementation(exec, {}, {});
  }
}

}  // namespace zeroproof::tests
