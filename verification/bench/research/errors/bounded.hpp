#pragma once
// Numbers in fp64 with a bound on the error of their fp32 computation: the rules of
// papers/fusions.md.

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace zeroproof::errors {

inline constexpr double u = 0x1p-24;  ///< [Bound:model]
inline constexpr double eta = 0x1p-150;
/// Of an elementary function: half a unit, plus the excess for the 71 inputs whose result by R23
/// is not the nearest value [Fusion:rules].
inline constexpr double u_function = u * (1 + 0x1p-26);
/// Rounding errors of bound and value themselves, in fp64.
inline constexpr double slack = 1 + 0x1p-20;

/// A real number, and the maximum distance of its fp32 counterpart from it.
struct Bounded {
  double value = 0;
  double error = 0;

  double magnitude() const { return std::fabs(value); }
  /// Error of the computed number in units of the bound; NaN if that is NaN.
  double ratio(float computed) const {
    const double distance = std::fabs(double{computed} - value);
    return distance == 0 ? 0 : distance / (error * slack);
  }
};

/// An input, or a setting that is an fp32 number.
inline Bounded given(float x) { return {x, 0}; }
/// A setting, rounded to fp32 once.
inline Bounded rounded(double x) { return {x, u * std::fabs(x) + eta}; }

/// [Fusion:rules]: the errors of the operands, and one rounding of a result that is larger by at
/// most that much.
inline Bounded with_rounding(double value, double brought, double underflow = 0) {
  return {value, brought + u * (std::fabs(value) + brought) + underflow};
}

inline Bounded operator+(const Bounded& a, const Bounded& b) {
  return with_rounding(a.value + b.value, a.error + b.error);
}
inline Bounded operator-(const Bounded& a, const Bounded& b) {
  return with_rounding(a.value - b.value, a.error + b.error);
}
inline Bounded operator*(const Bounded& a, const Bounded& b) {
  return with_rounding(a.value * b.value,
                       a.magnitude() * b.error + b.magnitude() * a.error + a.error * b.error, eta);
}
/// The divisor is not near 0.
inline Bounded operator/(const Bounded& a, const Bounded& b) {
  const double value = a.value / b.value;
  return with_rounding(value, (a.error + std::fabs(value) * b.error) / (b.magnitude() - b.error),
                       eta);
}
inline Bounded root(const Bounded& a) {
  const double value = std::sqrt(a.value);
  const double low = std::sqrt(std::max(0.0, a.value - a.error));
  return with_rounding(value, a.error == 0 ? 0 : a.error / (value + low));
}

/// A function of an argument with an error, which changes the value by `brought`.
inline Bounded of_function(double value, double brought) {
  return {value, brought + u_function * (std::fabs(value) + brought) + eta};
}
inline Bounded exp(const Bounded& a) {
  const double value = std::exp(a.value);
  return of_function(value, value * std::expm1(a.error));
}
inline Bounded sigmoid(const Bounded& a) {
  const double value = 1 / (1 + std::exp(-a.value));
  return of_function(value, value / (1 + std::exp(a.value)) * std::expm1(a.error));
}
inline Bounded tanh(const Bounded& a) {
  const double value = std::tanh(a.value);
  const double cosine =
      std::cosh(std::min(std::fabs(a.value), 300.0));  // 1 - tanh^2 = 1 / cosh^2 does not cancel
  return of_function(value, std::expm1(2 * a.error) / 2 / (cosine * cosine));
}
inline Bounded log(const Bounded& a) {
  return of_function(std::log(a.value), a.error / (a.value - a.error));
}

/// Of n terms in the eight blocks of R18: [Sum:any_order] with the number of additions that one
/// term passes through.
template <class Term>
Bounded sum(std::int64_t n, const Term& term) {
  const double additions = static_cast<double>((n + 7) / 8 + 2);
  const double gamma = additions * u / (1 - additions * u);
  double value = 0, magnitudes = 0, brought = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const Bounded x = term(i);
    value += x.value;
    magnitudes += x.magnitude();
    brought += x.error;
  }
  return {value, brought + gamma * (magnitudes + brought)};
}

}  // namespace zeroproof::errors
