#pragma once

#include <cmath>

#include "bounds.hpp"

/// fp32 orders of operations that the bounds allow, and faults that they must not allow.
namespace zeroproof::papers {

struct Computed {
  float grad, exp_avg, exp_avg_sq, denominator, master;
};

/// Orders of operations that [Bound:p] allows, in any combination.
enum Freedom : unsigned {
  contracted = 1,
  scale_before_divide = 2,
  square_last = 4,
  merged_factor = 8
};

/// Faults that a tolerance of 1e-3 does not detect.
enum class Fault {
  none,
  eps_before_correction,
  decay_after_update,
  beta_unrounded,
  decay_as_factor
};

inline float gradient(const Scalars& s, const Element& x, unsigned freedom) {
  const float g1 = x.grad_sum * s.inv_scale;
  float g = g1 * s.clip_coef;
  const float factor = s.inv_scale * s.clip_coef;
  if ((freedom & merged_factor) != 0 && factor >= 0x1p-126F) g = x.grad_sum * factor;
  if (!s.l2 || !s.decay) return g;
  if ((freedom & contracted) != 0) return std::fmaf(s.weight_decay, x.master, g);
  const float w = s.weight_decay * x.master;
  return g + w;
}

/// a * b + c, with one rounding or two.
inline float multiply_add(float a, float b, float c, unsigned freedom) {
  if ((freedom & contracted) != 0) return std::fmaf(a, b, c);
  const float product = a * b;
  return product + c;
}

inline Computed adam(const Scalars& s, const Element& x, unsigned freedom,
                     Fault fault = Fault::none) {
  Computed y{};
  const float g = gradient(s, x, freedom);
  const float o2 =
      fault == Fault::beta_unrounded ? static_cast<float>(1 - 0.999) : s.one_minus_beta2;
  y.grad = g;
  const float a2 = s.one_minus_beta1 * g;
  y.exp_avg = multiply_add(s.beta1, x.exp_avg, a2, freedom);
  const float h = g * g;
  const float og = o2 * g;
  const float b2 = (freedom & square_last) != 0 ? og * g : o2 * h;
  y.exp_avg_sq = multiply_add(s.beta2, x.exp_avg_sq, b2, freedom);
  const float root = std::sqrt(y.exp_avg_sq);
  const float r = root / s.sqrt_bias_correction2;
  y.denominator = r + s.eps;
  if (fault == Fault::eps_before_correction)
    y.denominator = (root + s.eps) / s.sqrt_bias_correction2;
  const float q = y.exp_avg / y.denominator;
  const float scaled = s.step_size * y.exp_avg;
  const float a = (freedom & scale_before_divide) != 0 ? scaled / y.denominator : s.step_size * q;
  if (fault == Fault::decay_as_factor) {
    const float kept = x.master * (1 - s.lr_weight_decay);
    y.master = kept - a;
  } else if (fault == Fault::decay_after_update) {
    const float moved = x.master - a;
    y.master = moved - s.lr_weight_decay * moved;
  } else {
    const float u = s.decay && !s.l2 ? multiply_add(s.lr_weight_decay, x.master, a, freedom) : a;
    y.master = x.master - u;
  }
  return y;
}

struct SgdComputed {
  float grad, buffer, master;
};

inline SgdComputed sgd(const Scalars& s, const Element& x) {
  SgdComputed y{};
  y.grad = gradient(s, x, 0);
  const float kept = s.momentum * x.exp_avg;
  const float added = s.one_minus_dampening * y.grad;
  y.buffer = kept + added;
  const float ahead = s.momentum * y.buffer;
  const float e = s.nesterov ? y.grad + ahead : y.buffer;
  const float step = s.lr * e;
  y.master = x.master - step;
  return y;
}

}  // namespace zeroproof::papers
