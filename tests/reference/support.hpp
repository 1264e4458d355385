#pragma once
// Small tools of the reference's tests.

#include <doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/philox.hpp"
#include "common/base/span.hpp"

namespace zeroproof::tests {

inline constexpr float inf32 = std::numeric_limits<float>::infinity();
inline constexpr float nan32 = std::numeric_limits<float>::quiet_NaN();
inline constexpr double inf64 = std::numeric_limits<double>::infinity();
inline constexpr double nan64 = std::numeric_limits<double>::quiet_NaN();

/// Bits of a value: all NaNs are one value (R9).
inline std::uint32_t bits(float value) {
  return std::isnan(value) ? 0x7FFFFFFFU : std::bit_cast<std::uint32_t>(value);
}
inline std::uint64_t bits(double value) {
  return std::isnan(value) ? 0x7FFFFFFFFFFFFFFFU : std::bit_cast<std::uint64_t>(value);
}

inline std::vector<std::uint32_t> bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> result;
  for (const float value : values) result.push_back(bits(value));
  return result;
}

/// Values of both signs between 2^-spread and 2^spread: their sum depends on the order of the additions.
inline std::vector<float> random_values(std::int64_t numel, std::uint64_t seed, int spread = 12) {
  const Philox philox(seed);
  std::vector<float> values;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(numel); ++i) {
    const int exponent =
        static_cast<int>(philox.below(3 * i, 2 * static_cast<std::uint64_t>(spread))) - spread;
    const float magnitude = std::ldexp(1.0F + philox.uniform(3 * i + 1), exponent);
    values.push_back((philox.word(3 * i + 2) & 1U) != 0 ? -magnitude : magnitude);
  }
  return values;
}

/// The code of the Error that `call` throws; the test fails if it throws none.
template <class Call>
ErrorCode error_code_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  FAIL("no error was thrown");
  return ErrorCode::internal;
}

#define ZP_CHECK_INVALID(call) \
  CHECK(zeroproof::tests::error_code_of([&] { call; }) == ErrorCode::invalid_argument)

}  // namespace zeroproof::tests
