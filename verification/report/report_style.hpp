#pragma once

#include <cstdint>
#include <string>

#include "verification/report/paint.hpp"

namespace zeroproof::verification {

/// 1234567 as "1,234,567".
inline std::string grouped(std::int64_t value) {
  std::string digits = std::to_string(value);
  for (std::int64_t at = static_cast<std::int64_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

}  // namespace zeroproof::verification
