#pragma once

#include <doctest.h>

#include <functional>
#include <string>

#include "common/base/error.hpp"

namespace zeroproof::tests {

/// Runs the call, expects an Error with the code and `part` in its text, and checks the form
/// "problem (why); remedy".
inline void expect_error(ErrorCode code, const std::function<void()>& call,
                         const std::string& part = "") {
  try {
    call();
    FAIL_CHECK("no error was reported");
  } catch (const Error& error) {
    const std::string text = error.what();
    CAPTURE(text);
    CHECK(error.code() == code);
    CHECK(text.find(" (") != std::string::npos);
    CHECK(text.find("); ") != std::string::npos);
    CHECK(text.find(part) != std::string::npos);
  }
}

}  // namespace zeroproof::tests
