#include "cuda/lbfgs/wolfe_search.hpp"

#include <cmath>

namespace zeroproof::cuda {

int WolfeSearch::free_slot() const {
  for (int slot = 0; slot < slots; ++slot) {
    const bool first = narrowing_ ? slot == a_.slot : slot == p_.slot;
    const bool second = narrowing_ && slot == b_.slot;
    if (slot != start_.slot && !first && !second) return slot;
  }
  return -1;  // four slots, at most three in use
}

bool WolfeSearch::high(const WolfePoint& p) const {
  const double u = 1e-4 * p.t;
  const double v = u * start_.s;
  return !(p.f <= start_.f + v);
}

bool WolfeSearch::flat(const WolfePoint& p) const {
  const double z = 0.9 * std::fabs(start_.s);
  return std::fabs(p.s) <= z;
}

double WolfeSearch::cubic(const WolfePoint& p, const WolfePoint& q, double low, double high) {
  const double sum = low + high;
  const double m = 0.5 * sum;
  if (!(p.good && q.good)) return m;
  const bool in_order = p.t <= q.t;
  const WolfePoint& l = in_order ? p : q;
  const WolfePoint& r = in_order ? q : p;
  const double b1 = p.s + q.s;
  const double b3 = 3.0 * (p.f - q.f);
  const double b5 = b3 / (p.t - q.t);
  const double b = b1 - b5;
  const double e1 = b * b;
  const double e2 = p.s * q.s;
  const double e = e1 - e2;
  if (!(e >= 0)) return m;
  const double c = std::sqrt(e);
  const double n1 = r.s + c;
  const double n2 = n1 - b;
  const double k1 = r.s - l.s;
  const double k2 = 2.0 * c;
  const double y = n2 / (k1 + k2);
  const double h2 = (r.t - l.t) * y;
  const double t = r.t - h2;
  if (t != t) return m;
  return t < low ? low : (t > high ? high : t);
}

void WolfeSearch::answer(const WolfePoint& point) {
  ++i_;
  if (narrowing_) {
    narrow(point);
  } else {
    bracket(point);
  }
}

void WolfeSearch::bracket(const WolfePoint& q) {
  if (i_ == max_ls_) return set_ends(start_, q);
  if (high(q) || (i_ > 1 && q.f >= p_.f)) return set_ends(p_, q);
  if (flat(q)) return take(q);
  if (q.s >= 0) return set_ends(p_, q);
  const double j2 = 0.01 * (q.t - p_.t);
  next_ = cubic(p_, q, q.t + j2, 10.0 * q.t);
  p_ = q;
}

void WolfeSearch::set_ends(const WolfePoint& a, const WolfePoint& b) {
  narrowing_ = true;
  a_ = a;
  b_ = b;
  choose();
  go_on();
}

void WolfeSearch::narrow(const WolfePoint& n) {
  WolfePoint& best = best_is_a_ ? a_ : b_;
  WolfePoint& worst = best_is_a_ ? b_ : a_;
  if (high(n) || n.f >= best.f) {
    worst = n;
    choose();
  } else if (flat(n)) {
    return take(n);
  } else {
    const double w4 = n.s * (worst.t - best.t);
    if (w4 >= 0) worst = best;
    best = n;
  }
  go_on();
}

/// The next trial between the ends, or the better end.
void WolfeSearch::go_on() {
  const double w2 = std::fabs(b_.t - a_.t) * max_abs_d_;
  if (i_ >= max_ls_ || w2 < tolerance_change_) return take(best_is_a_ ? a_ : b_);
  const double low = a_.t < b_.t ? a_.t : b_.t;
  const double high = a_.t < b_.t ? b_.t : a_.t;
  double t = cubic(a_, b_, low, high);
  const double o = 0.1 * (high - low);
  const double c1 = high - t;
  const double c2 = t - low;
  bool now_stuck = false;
  if (c1 < o || c2 < o) {
    if (stuck_ || t >= high || t <= low) {
      t = std::fabs(c1) < std::fabs(c2) ? high - o : low + o;
    } else {
      now_stuck = true;
    }
  }
  stuck_ = now_stuck;
  next_ = t;
}

}  // namespace zeroproof::cuda
