#pragma once

#include <cmath>

/// The per-element bounds of papers/bounds.md, implemented independently, with the fp32 operations
/// they bound.
namespace zeroproof::papers {

/// 113 bits, for bounds in units of 2^-24. The rounding errors of the oracle itself are covered by
/// the factor 1 + 2^-40 of [Bound:p].
__extension__ using Real = __float128;
inline Real magnitude(Real x) { return x < 0 ? -x : x; }
inline Real root(Real x) {
  if (x == 0) return 0;
  const Real near =
      std::sqrt(static_cast<long double>(x));  // 64 bits, and one Newton step doubles them
  return (near + x / near) / 2;
}

/// [Bound:model]
inline const Real u = 0x1p-24L;
inline const Real eta = 0x1p-150L;
inline Real gamma(int k) { return k * u / (1 - k * u); }

/// A value of the oracle and the allowed distance of an fp32 value from it.
struct Bounded {
  Real value;
  Real error;

  /// Error in units of the bound; NaN if computed is NaN.
  double ratio(float computed) const {
    const Real distance = magnitude(Real(computed) - value);
    return distance == 0 ? 0 : static_cast<double>(distance / error);
  }
};

/// fp32 scalars of a step, and one element before it.
struct Scalars {
  float inv_scale, clip_coef, beta1, one_minus_beta1, beta2, one_minus_beta2;
  float sqrt_bias_correction2, step_size, eps, lr_weight_decay, weight_decay, lr, momentum,
      one_minus_dampening;
  bool decay, l2, nesterov;
};
struct Element {
  float grad_sum, master, exp_avg, exp_avg_sq;  // exp_avg is the momentum buffer too
};
struct AdamBounds {
  Bounded grad, exp_avg, exp_avg_sq, denominator, master;
  bool valid;  ///< the conditions of [Bound:valid]
};
struct SgdBounds {
  Bounded grad, buffer, master;
  bool valid;
};

/// [Bound:g], [Bound:l2]
inline Bounded bound_grad(const Scalars& s, const Element& x) {
  const Real gx = Real(x.grad_sum) * s.inv_scale * s.clip_coef;
  if (!s.l2 || !s.decay) return {gx, gamma(2) * magnitude(gx) + 3 * eta};
  const Real w = Real(s.weight_decay) * x.master;
  return {gx + w, gamma(3) * magnitude(gx) + gamma(2) * magnitude(w) + 4 * eta};
}

/// [Bound:m] for a * x.exp_avg + b * g, also the momentum buffer of SGD.
inline Bounded bound_average(Real a, Real b, const Scalars& s, const Element& x, const Bounded& g) {
  const Real value = a * x.exp_avg + b * g.value;
  if (s.l2 && s.decay)
    return {value, gamma(2) * magnitude(a * x.exp_avg) +
                       b * (g.error * (1 + gamma(2)) + gamma(2) * magnitude(g.value)) + 3 * eta};
  return {value, gamma(2) * magnitude(a * x.exp_avg) + gamma(4) * magnitude(b * g.value) + 5 * eta};
}

/// [Bound:v]
inline Bounded bound_exp_avg_sq(const Scalars& s, const Element& x, const Bounded& g) {
  const Real b2 = s.beta2, o2 = s.one_minus_beta2;
  const Real square = g.value * g.value;
  const Real value = b2 * x.exp_avg_sq + o2 * square;
  if (s.l2 && s.decay) {
    const Real change = 2 * magnitude(g.value) * g.error + g.error * g.error;
    return {value, gamma(2) * b2 * x.exp_avg_sq +
                       o2 * (change * (1 + gamma(3)) + gamma(3) * square) + 4 * eta};
  }
  return {value, gamma(2) * b2 * x.exp_avg_sq + gamma(7) * o2 * square + 4 * eta};
}

/// [Bound:d]
inline Bounded bound_denominator(const Scalars& s, const Bounded& v) {
  const Real big_s = root(v.value);
  const Real lower = v.value > v.error ? v.value - v.error : Real(0);
  const Real x = v.value > 0 ? v.error / (big_s + root(lower)) : root(v.error);
  const Real error_s = x + u * (big_s + x);
  const Real d = big_s / s.sqrt_bias_correction2 + s.eps;
  const Real t = (error_s + u * (big_s + error_s)) / s.sqrt_bias_correction2;
  return {d, t + u * (d + t)};
}

/// [Bound:p]: subtracts a value with an error bound from the fp32 value master.
inline Bounded bound_subtract(Real master, const Bounded& step) {
  const Real p = master - step.value;
  return {p, (step.error * (1 + u) + u * magnitude(p)) * (1 + Real(0x1p-40L))};
}

inline bool below_limit(Real x) { return magnitude(x) < Real(0x1p127L); }

inline AdamBounds adam_bounds(const Scalars& s, const Element& x) {
  AdamBounds b;
  b.grad = bound_grad(s, x);
  b.exp_avg = bound_average(s.beta1, s.one_minus_beta1, s, x, b.grad);
  b.exp_avg_sq = bound_exp_avg_sq(s, x, b.grad);
  b.denominator = bound_denominator(s, b.exp_avg_sq);
  const Real d = b.denominator.value, error_d = b.denominator.error, ss = s.step_size;

  // [Bound:q], [Bound:a]
  const Real q = b.exp_avg.value / d;
  const Real change =
      (b.exp_avg.error / d + magnitude(b.exp_avg.value) * error_d / (d * d)) / (1 - error_d / d);
  const Real error_q = change + u * (magnitude(q) + change) + eta;
  const Real a = ss * q;
  Bounded step = {a, ss * error_q + u * (magnitude(a) + ss * error_q) + eta * (1 + 2 / d)};
  Real w = 0;
  if (s.decay && !s.l2) {
    w = Real(s.lr_weight_decay) * x.master;
    const Real error_w = u * magnitude(w) + eta;
    step = {a + w, (step.error + error_w) * (1 + u) + u * magnitude(a + w)};
  }
  b.master = bound_subtract(x.master, step);
  const Real g1 = Real(x.grad_sum) * s.inv_scale;
  b.valid = s.clip_coef <= 1 && error_d <= d / 4 && below_limit(g1) && below_limit(b.grad.value) &&
            below_limit(b.grad.value * b.grad.value) && below_limit(b.exp_avg.value) &&
            below_limit(b.exp_avg_sq.value) && below_limit(d) && below_limit(q) && below_limit(a) &&
            below_limit(ss * b.exp_avg.value) && below_limit(w) && below_limit(step.value) &&
            below_limit(b.master.value);
  return b;
}

inline SgdBounds sgd_bounds(const Scalars& s, const Element& x) {
  SgdBounds b;
  b.grad = bound_grad(s, x);
  b.buffer = bound_average(s.momentum, s.one_minus_dampening, s, x, b.grad);
  Bounded e = b.buffer;
  const Real look_ahead = Real(s.momentum) * b.buffer.value;
  if (s.nesterov) {  // [Bound:nesterov]
    e.value = b.grad.value + look_ahead;
    e.error = (b.grad.error + Real(s.momentum) * b.buffer.error * (1 + u) +
               u * magnitude(look_ahead) + eta) *
                  (1 + u) +
              u * magnitude(e.value);
  }
  const Real a = Real(s.lr) * e.value;  // [Bound:sgd]
  b.master = bound_subtract(x.master, {a, Real(s.lr) * e.error * (1 + u) + u * magnitude(a) + eta});
  b.valid = s.clip_coef <= 1 && below_limit(Real(x.grad_sum) * s.inv_scale) &&
            below_limit(b.grad.value) && below_limit(b.buffer.value) && below_limit(e.value) &&
            below_limit(a) && below_limit(b.master.value);
  return b;
}

}  // namespace zeroproof::papers
