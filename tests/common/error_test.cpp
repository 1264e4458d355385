#include "common/base/error.hpp"

#include <doctest.h>

#include <stdexcept>
#include <string>

namespace error_test {

using namespace zeroproof;

namespace {

/// Counts how often a message text is evaluated.
std::string counted(int& calls, const char* text) {
  ++calls;
  return text;
}

void check_everywhere(bool condition, int& calls) {
  ZP_CHECK(condition, ErrorCode::io, counted(calls, "a"), counted(calls, "b"), counted(calls, "c"));
}

}  // namespace

TEST_CASE("error: fail() writes problem, reason and remedy as one sentence, for every code") {
  for (const ErrorCode code : {ErrorCode::invalid_argument, ErrorCode::config, ErrorCode::io,
                               ErrorCode::comm, ErrorCode::timeout, ErrorCode::fp_environment,
                               ErrorCode::unavailable, ErrorCode::internal}) {
    bool caught = false;
    try {
      fail(code, "the lamp is dark", "text is unreadable", "light it");
    } catch (const Error& error) {
      caught = true;
      CHECK(error.code() == code);
      CHECK(error.what() == std::string("the lamp is dark (text is unreadable); light it"));
    }
    CHECK(caught);
  }
}

TEST_CASE("error: texts are passed on unchanged, an empty reason without parentheses") {
  const auto message = [](const char* problem, const char* why, const char* remedy) {
    try {
      fail(ErrorCode::io, problem, why, remedy);
    } catch (const std::runtime_error&
                 error) {  // callers that only catch std::runtime_error get the text too
      return std::string(error.what());
    }
    return std::string("nothing thrown");
  };
  CHECK(message("num_threads must be at least 1, got 0", "", "use 1") ==
        "num_threads must be at least 1, got 0; use 1");
  CHECK(message("50% of (x);", "%s", "{}\\") == "50% of (x); (%s); {}\\");
}

TEST_CASE("error: ZP_CHECK builds its texts only when it fails") {
  int calls = 0;
  check_everywhere(true, calls);
  CHECK(calls == 0);
  CHECK_THROWS_WITH_AS(check_everywhere(false, calls), "a (b); c", Error);
  CHECK(calls == 3);
}

TEST_CASE("error: ZP_CHECK is one statement and negates the whole condition") {
  const auto run = [](bool guarded, bool left, bool right) {
    int branch = 0;
    if (guarded)
      ZP_CHECK(left || right, ErrorCode::internal, "p", "w", "r");
    else
      branch = 1;
    return branch;
  };
  CHECK(run(true, false, true) == 0);
  CHECK(run(false, false, false) == 1);
  CHECK_THROWS_AS(run(true, false, false), Error);
}

}  // namespace error_test
