#pragma once
// Equality of two results.

#include <bit>
#include <cmath>
#include <cstdint>

namespace zeroproof {

/// Bit equality, with one value for all NaNs (R9).
inline bool same_value(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

}  // namespace zeroproof
