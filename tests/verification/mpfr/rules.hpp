#pragma once
// The update rules of R6 for any number type: with 256 bits they are practically exact, with 24
// bits they are fp32.

#include "common/contracts/step_scalars.hpp"

namespace zeroproof::tests {

/// The factors of a rule.
template <class T>
struct Factors {
  T beta1, rest1, beta2, rest2, root2, step_size, eps, rate_decay, decay, rate, momentum, rest;
  T ratio = T(1.0F);  ///< of lamb
};

template <class T>
struct Element {
  T master, exp_avg, exp_avg_sq, max_exp_avg_sq, momentum_buffer;
};

/// One element, one step. `decays`, `first`: R5's flags.
template <class T>
Element<T> updated(const OptimizerHyper& h, const Factors<T>& f, bool decays, bool first, T g,
                   Element<T> x) {
  const T zero = T(0.0F);
  const T p = x.master;
  if (h.maximize) g = zero - g;
  const RuleTraits& rule = traits_of(h.rule);
  const bool coupled = rule.decay == DecayKind::coupled;
  if (decays && coupled) g = g + f.decay * p;
  T step = zero;
  if (rule.keeps[StateSlot::exp_avg_sq]) {
    x.exp_avg = f.beta1 * x.exp_avg + f.rest1 * g;
    x.exp_avg_sq = f.beta2 * x.exp_avg_sq + f.rest2 * (g * g);
    T v = x.exp_avg_sq;
    if (h.amsgrad) {
      if (!(x.max_exp_avg_sq < v)) v = x.max_exp_avg_sq;
      x.max_exp_avg_sq = v;
    }
    step = f.step_size * (x.exp_avg / (sqrt(v) / f.root2 + f.eps));
  } else if (h.rule == UpdateRule::lion) {
    const T c = f.beta1 * x.exp_avg + f.rest1 * g;
    step = f.rate * (zero < c ? T(1.0F) : c < zero ? T(-1.0F) : c);
    x.exp_avg = f.beta2 * x.exp_avg + f.rest2 * g;
  } else if (h.rule == UpdateRule::sgd_ema) {
    x.exp_avg = f.beta1 * x.exp_avg + f.rest1 * g;
    step = f.rate * x.exp_avg;
  } else {
    T e = g;
    if (h.momentum != 0) {
      x.momentum_buffer = first ? g : f.momentum * x.momentum_buffer + f.rest * g;
      e = h.nesterov ? g + f.momentum * x.momentum_buffer : x.momentum_buffer;
    }
    step = f.rate * e;
  }
  if (decays && !coupled) step = step + f.rate_decay * p;
  x.master = p - (rule.trust_ratio ? f.ratio * step : step);
  return x;
}

}  // namespace zeroproof::tests
