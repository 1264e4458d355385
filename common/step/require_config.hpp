#pragma once
// Error helpers for checks of a configuration.

#include <cstdio>
#include <string>

#include "common/base/error.hpp"

namespace zeroproof {

/// Throws ErrorCode::config unless ok.
inline void require_config(bool ok, const std::string& problem, const std::string& why,
                           const std::string& remedy) {
  ZP_CHECK(ok, ErrorCode::config, problem, why, remedy);
}

/// A number for messages, with nine significant digits.
inline std::string shown(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof(buffer), "%.9g", value);
  return buffer;
}

}  // namespace zeroproof
