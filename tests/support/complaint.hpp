#pragma once
// Messages about invalid configurations.

#include <doctest.h>

#include <string>

#include "common/base/error.hpp"

namespace zeroproof_test {

using zeroproof::Error;
using zeroproof::ErrorCode;

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Message of the configuration error that `call` throws, after a check of its form; "" if it throws none.
template <class Call>
inline std::string complaint(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    const std::string text = error.what();
    CAPTURE(text);
    CHECK(error.code() == ErrorCode::config);
    CHECK(text.find(" (") < text.find("); "));
    CHECK(text.find("); ") + 3 < text.size());
    CHECK_FALSE(has(text, "\n"));  // one sentence, and one line of a log
    return text;
  }
  return "";
}

}  // namespace zeroproof_test
