#pragma once
// A refusal of a YAML file: one sentence with file and line.

#include <doctest.h>

#include <string>

#include "common/base/error.hpp"
#include "tests/fuzz/promise.hpp"

namespace zeroproof::tests {

/// Calls `work`, which must throw an error about f.yaml and that line (0: about the file as a
/// whole).
template <class Work>
void expect_refused(const Work& work, std::int64_t line, const std::string& mentions) {
  try {
    work();
  } catch (const Error& error) {
    const std::string text = error.what();
    CAPTURE(text);
    CAPTURE(mentions);
    CHECK(error.code() == ErrorCode::config);
    CHECK(text.starts_with(line == 0 ? "f.yaml " : "f.yaml:" + std::to_string(line) + ": "));
    CHECK(text.find(mentions) != std::string::npos);
    CHECK_NOTHROW(promise_sentence(error));
    return;
  }
  FAIL_CHECK("this was not refused: ", mentions);
}

}  // namespace zeroproof::tests
