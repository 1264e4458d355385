#pragma once

#include <exception>
#include <new>
#include <string>

#include "common/base/error.hpp"

namespace zeroproof::verification {

/// Where no memory is left, a program ends with this sentence and exit code 3.
inline constexpr const char* out_of_memory =
    "out of memory; run fewer cases at once with --jobs, or use a machine with more memory";

/// The sentence about an exception that ended one case.
inline std::string message_of(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ? out_of_memory : error.what();
}

/// Exit code of a program that ended with an error; README.md has the table.
inline int exit_code_of(const Error& error) {
  switch (error.code()) {
    case ErrorCode::invalid_argument:
    case ErrorCode::config:
    case ErrorCode::io:
      return 2;
    case ErrorCode::nonfinite:
      return 1;
    case ErrorCode::unavailable:
      return 3;
    case ErrorCode::timeout:
      return 5;
    case ErrorCode::comm:
      return 6;
    case ErrorCode::damaged:
      return 7;
    case ErrorCode::fp_environment:
    case ErrorCode::internal:
      break;
  }
  return 9;
}

}  // namespace zeroproof::verification
