#pragma once
// Arithmetic on the sets of values that legal orders can produce ([Bound:classes]).

#include <algorithm>
#include <cmath>
#include <limits>

#include "verification/compare/bounds/model.hpp"
#include "verification/compare/bounds/result_classes.hpp"

namespace zeroproof::verification::bounds {

/// An interval of extended reals that contains every value of a legal evaluation, in fp32 or fp64,
/// fused or not; empty if low is above high. `nan`: the evaluation can also be a NaN.
struct ResultRange {
  Real low = infinite;
  Real high = -infinite;
  bool nan = false;

  /// An input, without an error.
  static ResultRange of(Real value) {
    return std::isnan(value) ? ResultRange{infinite, -infinite, true}
                             : ResultRange{value, value, false};
  }

  bool contains(Real value) const { return low <= value && value <= high; }
  bool empty() const { return !(low <= high); }
  bool has_infinity() const { return high == infinite || low == -infinite; }
  bool has_number() const { return low < infinite && high > -infinite; }

  ResultRange with(const ResultRange& other) const {
    return {std::min(low, other.low), std::max(high, other.high), nan || other.nan};
  }

  /// Widened by the rounding of each of its values: 2^-20 covers several roundings of a scalar,
  /// 2^-140 underflow. Values above the largest fp32 number may overflow, in fp32; rounding is
  /// monotonic, so that the others stay below it, and keep their sign.
  ResultRange rounded() const {
    if (empty()) return *this;
    const auto by = [](Real x) { return std::isinf(x) ? 0 : 0x1p-20L * std::fabs(x) + 0x1p-140L; };
    ResultRange r{low - by(low), high + by(high), nan};
    if (low >= 0) r.low = std::max<Real>(r.low, 0);
    if (high <= 0) r.high = std::min<Real>(r.high, 0);
    constexpr Real finite = std::numeric_limits<float>::max();
    r.high = high > finite ? infinite : std::min(r.high, finite);
    r.low = low < -finite ? -infinite : std::max(r.low, -finite);
    return r;
  }

  /// Classes of these values as fp32 numbers, or cast to bf16.
  ResultClasses classes(bool as_bf16 = false) const {
    const Real overflow = as_bf16 ? 0x1p128L * (1 - 0x1p-9L) : 0x1p128L * (1 - u / 2);
    const Real underflow = as_bf16 ? 0x1p-134L : eta;
    int set = nan ? ResultClasses::nan : 0;
    if (empty()) return set;
    if (high >= overflow) set |= ResultClasses::infinity;
    if (low <= -overflow) set |= ResultClasses::minus_infinity;
    if (low <= underflow && high >= -underflow)
      set |= ResultClasses::zero | ResultClasses::minus_zero;
    if ((high > underflow && low < overflow) || (low < -underflow && high > -overflow))
      set |= ResultClasses::number;
    return set;
  }
};

/// The hull of an operation over the ends of two intervals; ends whose result is a NaN are left
/// out. zero: values between the ends have the result 0.
template <class Operation>
ResultRange hull(const ResultRange& a, const ResultRange& b, bool nan, bool zero,
                 Operation operation) {
  ResultRange r{infinite, -infinite, a.nan || b.nan};
  if (a.empty() || b.empty()) return r;
  r.nan = r.nan || nan;
  if (zero) r.low = r.high = 0;
  for (const Real x : {a.low, a.high}) {
    for (const Real y : {b.low, b.high}) {
      const Real value = operation(x, y);
      if (!std::isnan(value)) r = r.with(ResultRange::of(value));
    }
  }
  return r.rounded();
}

inline ResultRange operator-(const ResultRange& a) { return {-a.high, -a.low, a.nan}; }

inline ResultRange operator+(const ResultRange& a, const ResultRange& b) {
  const bool opposite =
      (a.high == infinite && b.low == -infinite) || (a.low == -infinite && b.high == infinite);
  return hull(a, b, opposite, false, [](Real x, Real y) { return x + y; });
}

inline ResultRange operator-(const ResultRange& a, const ResultRange& b) { return a + -b; }

inline ResultRange operator*(const ResultRange& a, const ResultRange& b) {
  const bool nan = (a.contains(0) && b.has_infinity()) || (b.contains(0) && a.has_infinity());
  const bool zero = (a.contains(0) && b.has_number()) || (b.contains(0) && a.has_number());
  return hull(a, b, nan, zero, [](Real x, Real y) { return x * y; });
}

/// Of a divisor that is not negative.
inline ResultRange operator/(const ResultRange& a, const ResultRange& b) {
  const bool nan = (a.has_infinity() && b.has_infinity()) || (a.contains(0) && b.contains(0));
  return hull(a, b, nan, a.has_number() && b.has_infinity(),
              [](Real x, Real y) { return x / std::fabs(y); });
}

inline ResultRange square(const ResultRange& a) {
  if (a.empty()) return a;
  const Real least = a.contains(0) ? 0 : std::min(std::fabs(a.low), std::fabs(a.high));
  const Real most = std::max(std::fabs(a.low), std::fabs(a.high));
  return ResultRange{least * least, most * most, a.nan}.rounded();
}

/// A NaN for a negative value.
inline ResultRange root(const ResultRange& a) {
  if (a.empty()) return a;
  if (a.high < 0) return {infinite, -infinite, true};
  return ResultRange{std::sqrt(std::max<Real>(a.low, 0)), std::sqrt(a.high), a.nan || a.low < 0}
      .rounded();
}

}  // namespace zeroproof::verification::bounds
