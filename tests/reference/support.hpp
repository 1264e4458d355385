#pragma once
// Helpers of the reference's tests.

#include <doctest.h>

#include "common/base/error.hpp"
#include "common/base/span.hpp"
#include "tests/support/values.hpp"

namespace zeroproof::tests {

/// Finite values and some specials.
inline std::vector<float> gradient_with_specials(std::int64_t numel) {
  std::vector<float> grad = random_values(numel, 1);
  const std::vector<float> special = {nan32, inf32, -inf32, 0x1p-149F, -3e38F, 0, -0.0F};
  for (std::size_t i = 0; i < special.size() && 20 * i < grad.size(); ++i)
    grad[20 * i] = special[i];
  return grad;
}

/// The code of the Error that `call` throws; the test fails if it throws none.
template <class Call>
ErrorCode error_code_of(const Call& call) {
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
