#pragma once

#include <string>

#include "verification/cases/case.hpp"

namespace zeroproof::verification {

/// Colour codes, or "" without colour.
struct Paint {
  bool on;
  std::string operator()(const char* code, const std::string& text) const {
    return on ? "\033[" + std::string(code) + "m" + text + "\033[0m" : text;
  }
  std::string status(Status status, const std::string& text) const {
    switch (status) {
      case Status::pass:
        return (*this)("32", text);
      case Status::mistrusted:
      case Status::skipped:
        return (*this)("33", text);
      default:
        return (*this)("31", text);
    }
  }
};

}  // namespace zeroproof::verification
