#include "verification/compare/bounds/step_bounds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "verification/compare/bounds/model.hpp"
#include "verification/compare/bounds/result_range.hpp"

namespace zeroproof::verification {
namespace {

using namespace bounds;

ElementBound one_result(Real value) { return {value, 0, true}; }

/// An infinity of the sign of `exact`, or a finite number.
ResultClasses overflowing(Real exact) {
  return ResultClasses::number |
         (exact < 0 ? ResultClasses::minus_infinity : ResultClasses::infinity);
}

}  // namespace

ElementBound product_bound(float value, float factor) {
  const Real exact = static_cast<Real>(value) * static_cast<Real>(factor);
  if (!std::isfinite(exact) || exact == 0) return one_result(exact);
  const Real allowed = (gamma_of(2) * std::fabs(exact) + eta) * slack;
  constexpr Real overflows =
      0x1p128L * (1 - u / 2);  // values nearer to 2^128 than to the largest number
  if (std::fabs(exact) - allowed >= overflows) {
    return one_result(std::copysign(std::numeric_limits<Real>::infinity(), exact));
  }
  return {exact, allowed, std::fabs(exact) + allowed < overflows, overflowing(exact)};
}

ElementBound clip_coef_bound(double norm, double max_norm, double eps) {
  constexpr Real tiny = 0x1p-126L;
  if (std::isnan(norm)) return one_result(norm);
  const Real limit = max_norm;
  const bool in_range = norm >= 0 && limit >= tiny && limit < largest;
  if (in_range && std::isinf(norm)) return one_result(0);
  const Real quotient = limit / (static_cast<Real>(norm) + static_cast<Real>(eps));
  const Real allowed = (gamma_of(4) * quotient + eta) * slack;
  const bool judged = in_range && norm < largest && quotient < largest;
  // A norm or a limit that fp32 does not have is infinite or 0 in it.
  const ResultClasses classes = norm >= 0 && limit >= 0
                                    ? ResultClasses(ResultClasses::number | ResultClasses::zero |
                                                    ResultClasses::minus_zero | ResultClasses::nan)
                                    : ResultClasses();
  if (quotient - allowed >= 1) return {1, 0, judged, classes};
  return {std::min<Real>(quotient, 1), allowed, judged, classes};
}

float nonfinite_of(Span<const float> values) {
  float kind = 0;
  for (const float x : values) {
    if (std::isnan(x)) return x;
    if (std::isinf(x)) kind = std::numeric_limits<float>::infinity();
  }
  return kind;
}

long double exact_norm(Span<const float> values, long double p) {
  Real largest_magnitude = 0;
  for (const float x : values)
    largest_magnitude = std::max(largest_magnitude, std::fabs(static_cast<Real>(x)));
  if (largest_magnitude == 0) return 0;
  Real sum = 0;
  Real lost = 0;  // Kahan: the error of the sum does not grow with its length
  for (const float x : values) {
    const Real term = std::pow(std::fabs(static_cast<Real>(x)) / largest_magnitude, p) - lost;
    const Real next = sum + term;
    lost = (next - sum) - term;
    sum = next;
  }
  return largest_magnitude * std::pow(sum, 1 / p);
}

ElementBound norm_bound(Span<const float> values, double p) {
  const float special = nonfinite_of(values);
  if (special != 0) return one_result(special);
  const Real power = p;
  const Real exact = exact_norm(values, power);
  if (exact == 0) return one_result(0);
  const auto n = static_cast<Real>(values.size());
  const Real relative = ((n + 7 + std::log(n)) / power + 10) * u;
  const Real allowed = (static_cast<Real>(1.01) * relative * exact + eta) * slack;
  return {exact, allowed,
          p >= 0.5 && (n + 35) / power * u <= static_cast<Real>(0.019) && exact + allowed < largest,
          overflowing(exact)};
}

ElementBound sum_bound(Span<const float> values) {
  Real positive = 0;
  Real negative = 0;
  bool nan = false;
  for (const float x : values) {
    nan = nan || std::isnan(x);
    (x < 0 ? negative : positive) += static_cast<Real>(x);
  }
  const Real exact = positive + negative;
  const Real magnitudes = positive - negative;
  const int roundings = std::max(0, static_cast<int>(values.size()) - 1);
  const ElementBound bound = {exact, gamma_of(roundings) * magnitudes * slack,
                              magnitudes < largest};
  if (bound.judged) return bound;
  if (nan) return {0, 0, false, ResultClasses::nan};
  // The parts of either sign, which a partial sum may hold alone.
  const auto part = [&](Real sum) {
    const Real off = std::isinf(sum) ? 0 : gamma_of(roundings) * std::fabs(sum);
    return ResultRange{sum - off, sum + off}.rounded();
  };
  return {0, 0, false, (part(positive) + part(negative)).classes()};
}

}  // namespace zeroproof::verification
