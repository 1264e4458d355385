#pragma once

#include "common/base/error.hpp"

namespace zeroproof::verification {

/// Exit code of a program that an error ended; README.md says what each one means.
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
