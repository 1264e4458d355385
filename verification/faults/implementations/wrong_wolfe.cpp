#include "verification/faults/implementations/wrong_wolfe.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace zeroproof::verification {
namespace {

double cubic(const WolfeTrial& p, const WolfeTrial& q, double low, double high,
             WolfeMistake mistake) {
  const double middle = 0.5 * (low + high);
  if (!p.good || !q.good) return middle;
  const WolfeTrial& left = p.t <= q.t ? p : q;
  const WolfeTrial& right = p.t <= q.t ? q : p;
  const double b = (p.s + q.s) - 3 * (p.f - q.f) / (p.t - q.t);
  const double e = b * b - p.s * q.s;
  if (!(e >= 0)) return middle;
  const double c = mistake == WolfeMistake::other_root ? -std::sqrt(e) : std::sqrt(e);
  const double k = (right.s - left.s) + 2 * c;
  const double y = ((right.s + c) - b) / k;
  const double t = right.t - (right.t - left.t) * y;
  return std::isnan(t) ? middle : std::clamp(t, low, high);
}

}  // namespace

WolfeTrial wrong_wolfe(const WolfeTrial& start, double t, const WolfeSettings& settings,
                       const std::function<WolfeTrial(double t)>& evaluate) {
  const WolfeMistake mistake = settings.mistake;
  const auto too_high = [&](const WolfeTrial& p) {
    return !(p.f <= start.f + 1e-4 * p.t * start.s);
  };
  const auto is_flat = [&](const WolfeTrial& p) {
    const double limit = 0.9 * std::fabs(start.s);
    return mistake == WolfeMistake::signed_slope ? p.s <= limit : std::fabs(p.s) <= limit;
  };

  WolfeTrial p = start;
  WolfeTrial q = evaluate(t);
  WolfeTrial a, b;
  std::int64_t i = 0;
  for (;; ++i) {
    if (i == settings.max_ls) {
      a = start;
      b = q;
      break;
    }
    a = p;
    b = q;
    if (too_high(q) || (i > 1 && q.f >= p.f)) break;
    if (is_flat(q)) return q;
    if (q.s >= 0) break;
    const double next = cubic(p, q, q.t + 0.01 * (q.t - p.t), 10 * q.t, mistake);
    p = q;
    q = evaluate(next);
  }

  WolfeTrial* best = a.f <= b.f ? &a : &b;
  WolfeTrial* worst = best == &a ? &b : &a;
  bool stuck = false;
  while (i < settings.max_ls &&
         !(std::fabs(b.t - a.t) * settings.max_abs_d < settings.tolerance_change)) {
    const double low = std::min(a.t, b.t);
    const double high = std::max(a.t, b.t);
    double at = cubic(a, b, low, high, mistake);
    const double margin = 0.1 * (high - low);
    const bool at_an_end = high - at < margin || at - low < margin;
    if (at_an_end && (stuck || at >= high || at <= low)) {
      at = std::fabs(high - at) < std::fabs(at - low) ? high - margin : low + margin;
      stuck = false;
    } else {
      stuck = at_an_end;
    }
    const WolfeTrial n = evaluate(at);
    ++i;
    if (too_high(n) || n.f >= best->f) {
      if (mistake != WolfeMistake::bracket_not_moved) *worst = n;
      best = a.f <= b.f ? &a : &b;
      worst = best == &a ? &b : &a;
      continue;
    }
    if (is_flat(n)) return n;
    if (n.s * (worst->t - best->t) >= 0) *worst = *best;
    *best = n;
  }
  return *best;
}

}  // namespace zeroproof::verification
