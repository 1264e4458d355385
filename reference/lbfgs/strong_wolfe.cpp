#include "reference/lbfgs/strong_wolfe.hpp"

#include <array>
#include <cmath>
#include <optional>
#include <utility>

namespace zeroproof::reference {
namespace {

double middle(double low, double high) {
  const double sum = low + high;
  return 0.5 * sum;
}

/// The two conditions, both with values and slopes of the start.
struct Conditions {
  double f, gtd;

  bool high(const LineTrial& p) const {
    const double u = 1e-4 * p.t;
    const double v = u * gtd;
    const double w = f + v;
    return !(p.f <= w);
  }
  bool flat(const LineTrial& p) const { return std::fabs(p.slope) <= 0.9 * std::fabs(gtd); }
};

/// Two trials with an acceptable step length between them.
struct Ends {
  std::array<LineTrial, 2> at;
  int best = 0;

  void choose() { best = at[0].f <= at[1].f ? 0 : 1; }
  LineTrial& better() { return at[best]; }
  LineTrial& worse() { return at[1 - best]; }
};

/// The next step length between the ends: the minimum of the cubic, but not twice in a row close to
/// an end.
double between(const Ends& ends, bool& stuck) {
  const auto& [a, b] = ends.at;
  const double low = a.t < b.t ? a.t : b.t;
  const double high = a.t < b.t ? b.t : a.t;
  const double t = cubic_minimum(a, b, low, high);
  const double width = high - low;
  const double margin = 0.1 * width;
  const double to_high = high - t;
  const double to_low = t - low;
  if (!(to_high < margin || to_low < margin)) {
    stuck = false;
    return t;
  }
  if (!stuck && t < high && t > low) {
    stuck = true;
    return t;
  }
  stuck = false;
  return std::fabs(to_high) < std::fabs(to_low) ? high - margin : low + margin;
}

}  // namespace

double cubic_minimum(const LineTrial& p, const LineTrial& q, double low, double high) {
  if (!p.good || !q.good) return middle(low, high);
  const LineTrial& l = p.t <= q.t ? p : q;
  const LineTrial& r = p.t <= q.t ? q : p;
  const double slopes = p.slope + q.slope;
  const double rise = p.f - q.f;
  const double rise3 = 3 * rise;
  const double run = p.t - q.t;
  const double secant3 = rise3 / run;
  const double b = slopes - secant3;
  const double b_squared = b * b;
  const double product = p.slope * q.slope;
  const double e = b_squared - product;
  if (!(e >= 0)) return middle(low, high);
  const double c = std::sqrt(e);
  const double above = (r.slope + c) - b;
  const double below = (r.slope - l.slope) + 2 * c;
  const double part = above / below;
  const double length = r.t - l.t;
  const double back = length * part;
  const double t = r.t - back;
  if (t < low) return low;
  if (t > high) return high;
  return std::isnan(t) ? middle(low, high) : t;
}

LineTrial strong_wolfe(const LineTrial& start, double first_t, const LineSearchLimits& limits,
                       const std::function<LineTrial(double t)>& trial) {
  const Conditions conditions{start.f, start.slope};
  LineTrial p = start;
  LineTrial q = trial(first_t);
  std::int64_t i = 0;
  while (i < limits.max_ls) {
    if (conditions.high(q) || (i > 1 && q.f >= p.f)) break;
    if (conditions.flat(q)) return q;
    if (q.slope >= 0) break;
    const double step = q.t - p.t;
    const double least_step = 0.01 * step;
    const double low = q.t + least_step;
    const double high = 10 * q.t;
    const double t = cubic_minimum(p, q, low, high);
    p = std::exchange(q, trial(t));
    i += 1;
  }
  if (i == limits.max_ls) p = start;

  Ends ends{{std::move(p), std::move(q)}};
  ends.choose();
  bool stuck = false;
  while (i < limits.max_ls) {
    const double width = ends.at[1].t - ends.at[0].t;
    if (std::fabs(width) * limits.largest_d < limits.tolerance_change) break;
    LineTrial n = trial(between(ends, stuck));
    i += 1;
    if (conditions.high(n) || n.f >= ends.better().f) {
      ends.worse() = std::move(n);
      ends.choose();
      continue;
    }
    if (conditions.flat(n)) return n;
    const double towards_worse = ends.worse().t - ends.better().t;
    if (n.slope * towards_worse >= 0) ends.worse() = ends.better();
    ends.better() = std::move(n);
  }
  return ends.better();
}

}  // namespace zeroproof::reference
