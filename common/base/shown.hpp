#pragma once
// Numbers in messages.

#include <cstdio>
#include <string>

namespace zeroproof {

/// With nine significant digits, which tell two fp32 numbers apart.
inline std::string shown(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof(buffer), "%.9g", value);
  return buffer;
}

}  // namespace zeroproof
