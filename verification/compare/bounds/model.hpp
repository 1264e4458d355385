#pragma once
// Number type and constants of the bounds ([Bound:model]).

#include <limits>

namespace zeroproof::verification::bounds {

using Real = long double;

constexpr Real u = 0x1p-24L;
constexpr Real eta = 0x1p-150L;
constexpr Real gamma_of(int k) { return static_cast<Real>(k) * u / (1 - static_cast<Real>(k) * u); }

/// Covers the rounding of 64-bit significands, and of fp64 scalars before they are rounded.
constexpr Real slack = 1 + 0x1p-27L;

constexpr Real largest = 0x1p127L;  // no intermediate of a judged element may overflow
constexpr Real infinite = std::numeric_limits<Real>::infinity();  // the error of one that might

}  // namespace zeroproof::verification::bounds
