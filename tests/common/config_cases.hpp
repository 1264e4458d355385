#pragma once
// What the tests of configurations share.

#include <doctest.h>

#include <string>

#include "common/base/error.hpp"
#include "common/step/config.hpp"

namespace zeroproof_test {

using zeroproof::apply_toml;
using zeroproof::Error;
using zeroproof::ErrorCode;
using zeroproof::RunConfig;

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Message of the configuration error that `call` throws, after a look at its grammar; "" if it throws none.
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

inline RunConfig applied(const std::string& toml) {
  RunConfig config = zeroproof::main_config();
  apply_toml(config, toml, "some/file.toml");
  return config;
}

}  // namespace zeroproof_test
