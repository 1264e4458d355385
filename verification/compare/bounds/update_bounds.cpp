#include "verification/compare/bounds/update_bounds.hpp"

#include <algorithm>
#include <cmath>

#include "reference/operations.hpp"
#include "verification/compare/bounds/model.hpp"

namespace zeroproof::verification {
namespace {

using namespace bounds;

ElementBound judged(Real exact, Real error) {
  const bool valid =
      std::isfinite(exact) && std::isfinite(error) && std::fabs(exact) + error < largest;
  return {exact, error * slack, valid};
}

Real power(Real base, std::int64_t exponent) { return std::pow(base, static_cast<Real>(exponent)); }

/// The largest magnitude that a value may have.
Real most(const BoundedValue& value) { return std::fabs(value.exact) + value.error; }

}  // namespace

UpdateBounds::UpdateBounds(const OptimizerHyper& hyper, std::int64_t t, float trust_ratio)
    : hyper_(hyper),
      t_(t),
      lr_(hyper.lr),
      decay_(hyper.weight_decay),
      ratio_(trust_ratio),
      ratio_roundings_(traits_of(hyper.rule).trust_ratio ? 1 : 0),
      classes_(hyper, t, trust_ratio) {
  reference::step_scalars(hyper, t, 0, 1);  // throws for settings outside R5
  set_betas(hyper.beta1, hyper.beta2);
}

void UpdateBounds::set_betas(double beta1, double beta2) {
  beta1_ = beta1;
  beta2_ = beta2;
  new1_ = 1 - beta1_;
  new2_ = 1 - beta2_;
  root_correction2_ = hyper_.bias_correction ? std::sqrt(1 - power(beta2_, t_)) : 1;
  correction1_ = hyper_.bias_correction ? 1 - power(beta1_, t_) : 1;
  step_size_ = lr_ / correction1_;
}

void UpdateBounds::set_powers(float power1, float power2) {
  correction1_ = 1 - static_cast<Real>(power1);
  root_correction2_ = std::sqrt(1 - static_cast<Real>(power2));
  step_size_ = lr_ / correction1_;
  root_roundings_ = 5;
  step_roundings_ = 8;
  classes_.set_powers(power1, power2);
}

void UpdateBounds::set_new_weights(double of_average, double of_square) {
  new1_ = of_average;
  new2_ = of_square;
}

/// g, or with coupled decay g + weight_decay * master.
UpdateBounds::Value UpdateBounds::gradient(const Value& grad, const BoundedState& before) const {
  const Real g = hyper_.maximize ? -grad.exact : grad.exact;
  if (decay_ == 0 || traits_of(hyper_.rule).decay != DecayKind::coupled) return {g, grad.error};
  const Real carried = grad.error + decay_ * before.master.error;
  return {
      g + decay_ * before.master.exact,
      gamma_of(1) * most(grad) + gamma_of(3) * decay_ * most(before.master) + 2 * eta + carried};
}

/// weight * old + new_weight * g, or old + new_weight * (g - old), or g + weight * (old - g).
UpdateBounds::Value UpdateBounds::average(Real weight, Real new_weight, const Value& old,
                                          const Value& grad) {
  const Real before = old.exact;
  const Real exact = weight * before + new_weight * grad.exact;
  const Real carried = (new_weight * grad.error + weight * old.error) * (1 + gamma_of(3));
  const Real sum =
      gamma_of(3) * (std::fabs(weight * before) + std::fabs(new_weight * grad.exact)) + 3 * eta;
  Real error = sum;
  if (std::fabs(weight + new_weight - 1) <= u) {  // only weights that add up to 1 have this form
    const Real factor = std::min(weight, new_weight) == weight ? weight : new_weight;
    const Real move =
        gamma_of(3) * factor * (std::fabs(grad.exact - before) + grad.error + old.error) * (1 + u) +
        u * (std::fabs(exact) + carried) + 2 * eta;
    error = std::max(sum, move);
  }
  return {exact, error + carried};
}

/// beta2 * old + (1 - beta2) * g^2, in any grouping of the product.
UpdateBounds::Value UpdateBounds::square(const Value& old, const Value& grad) const {
  const Real kept = beta2_ * old.exact;
  const Real added = new2_ * grad.exact * grad.exact;
  const Real carried = new2_ * (2 * std::fabs(grad.exact) + grad.error) * grad.error;
  return {kept + added, gamma_of(2) * std::fabs(kept) + gamma_of(4) * added +
                            carried * (1 + gamma_of(4)) + beta2_ * old.error * (1 + gamma_of(2)) +
                            4 * eta};
}

/// step_size * m / (sqrt(v) / root_correction2 + eps), with corrections and rate applied at any
/// point.
UpdateBounds::Value UpdateBounds::adaptive_step(const Value& average, const Value& square,
                                                bool& valid) const {
  const Real eps = hyper_.eps;
  const Real below = square.exact;
  const Real root = std::sqrt(below);
  const Real off = below > 0
                       ? square.error / (root + std::sqrt(std::max<Real>(0, below - square.error)))
                       : std::sqrt(square.error);
  const Real d = root / root_correction2_ + eps;
  const Real t = (off + gamma_of(root_roundings_) * (root + off)) / root_correction2_ + u * eps;
  const Real d_error = t + u * (d + t);
  const Real q = average.exact / d;
  const Real q_error = (average.error / d + std::fabs(q) * d_error / d) / (1 - d_error / d);
  valid = below >= 0 && d_error <= d / 4 && (std::fabs(q) + q_error) / correction1_ < largest;
  const Real a = step_size_ * q;
  const Real a_error = step_size_ * q_error;
  const Real underflow = eta * (2 + 2 * step_size_ + 2 / (d * root_correction2_));
  return {a, a_error + gamma_of(step_roundings_) * (std::fabs(a) + a_error) + underflow};
}

UpdateBounds::Value UpdateBounds::scaled(const Value& part) const {
  if (ratio_roundings_ == 0) return part;
  const Real exact = ratio_ * part.exact, error = ratio_ * part.error;
  return {exact, error + gamma_of(1) * (std::fabs(exact) + error) + eta};
}

/// The worst of p - (a + w), (p - w) - a, (p - a) - w, p * (1 - lr * wd) - a, p - lr * (a / lr + wd
/// * p). A trust ratio multiplies a and w, lr * wd, or the sum.
UpdateBounds::Value UpdateBounds::decayed(const Value& master, const Value& step) const {
  const Real p = master.exact, p_error = master.error, p_most = most(master);
  const bool decays = traits_of(hyper_.rule).decay == DecayKind::decoupled && lr_ * decay_ != 0;
  const Real rate = decays ? lr_ * decay_ : 0;
  // Of the roundings alone; the error of p goes through p (1 - lambda), which every form computes.
  const Value decay{rate * p, decays ? gamma_of(4) * rate * p_most + 2 * eta * (1 + lr_) : 0};
  const Value a = scaled(step), w = decays ? scaled(decay) : decay;
  const Real lambda = ratio_ * rate;
  const Real both = a.exact + w.exact;
  const Real result = p - both;
  const Real given = a.error + w.error;
  const auto fits = [&](const Value& one, const Value& other) {
    return p_most * (1 + lambda) + std::fabs(other.exact) + std::fabs(one.exact) +
               (one.error + other.error) <
           largest;
  };
  if (!fits(a, w) || !fits(step, decay)) return {result, infinite};
  const int r = ratio_roundings_;
  Real inner = given * (1 + gamma_of(3 + r)) +
               gamma_of(3 + r) * (std::fabs(both) + lambda * p_error) +
               eta * (1 + lr_) * (1 + r * ratio_);  // lr and the ratio around the sum
  if (decays) {
    inner = std::max(inner, given + u * (std::fabs(p - w.exact) + w.error + p_error));
    inner = std::max(inner, given + u * (std::fabs(p - a.exact) + a.error + p_error));
    const Real factor_error = u + gamma_of(3 + r) * lambda;
    inner = std::max(
        inner,
        a.error + p_most * (factor_error + u * (std::fabs(1 - lambda) + factor_error)) + eta);
  }
  inner += std::fabs(1 - lambda) * p_error;
  return {result, inner * (1 + u) + u * std::fabs(result)};
}

/// master - lr * direction.
UpdateBounds::Value UpdateBounds::moved(const Value& master, const Value& direction) const {
  const Real s = lr_ * direction.exact;
  const Real error =
      lr_ * direction.error * (1 + gamma_of(2)) + gamma_of(2) * std::fabs(s) + eta + master.error;
  const Real result = master.exact - s;
  if (!(std::fabs(master.exact) + std::fabs(s) + error < largest)) return {result, infinite};
  return {result, error * (1 + u) + u * std::fabs(result)};
}

/// True if no legal order overflows in its moving average or in the square of the gradient.
bool UpdateBounds::no_overflow(const Value& grad, const Value& old) const {
  const Real g = most(grad);
  return g + most(old) < largest &&
         (!traits_of(hyper_.rule).keeps[StateSlot::exp_avg_sq] || g * g < largest);
}

void UpdateBounds::adam(const Value& grad, const BoundedState& before, UpdateBound& bound) const {
  const Value g = gradient(grad, before);
  if (!no_overflow(g, before.exp_avg)) return;
  const Value m = average(beta1_, new1_, before.exp_avg, g);
  Value v = square(before.exp_avg_sq, g);
  bound.exp_avg = judged(m.exact, m.error);
  bound.exp_avg_sq = judged(v.exact, v.error);
  if (hyper_.amsgrad) {  // the larger of two numbers is no further off than they are
    v.exact = std::max(v.exact, before.max_exp_avg_sq.exact);
    v.error = std::max(v.error, before.max_exp_avg_sq.error);
    bound.max_exp_avg_sq = judged(v.exact, v.error);
  }
  bound.master = master(before.master, m, v);
  bound.master.judged = bound.master.judged && bound.exp_avg.judged && bound.exp_avg_sq.judged;
}

ElementBound UpdateBounds::master(const Value& before, const Value& m, const Value& v) const {
  bool valid = false;
  const Value p = decayed(before, adaptive_step(m, v, valid));
  ElementBound bound = judged(p.exact, p.error);
  // Moments may be corrected before anything else, and the rate come last.
  valid = valid && ratio_ >= 0 && std::fabs(m.exact) / correction1_ < largest &&
          decay_ * most(before) < largest && (std::fabs(m.exact) + 1) * step_size_ < largest &&
          v.exact / (root_correction2_ * root_correction2_) < largest;
  bound.judged = bound.judged && valid;
  return bound;
}

ElementBound UpdateBounds::decoupled(const Value& before, const Value& step) const {
  const Value p = decayed(before, step);
  return judged(p.exact, p.error);
}

void UpdateBounds::lion(const Value& grad, const BoundedState& before, UpdateBound& bound) const {
  const Value g = gradient(grad, before);
  if (!no_overflow(g, before.exp_avg)) return;
  const Value c = average(beta1_, new1_, before.exp_avg, g);
  const Value m = average(beta2_, new2_, before.exp_avg, g);
  const Real sign = c.exact > 0 ? 1 : c.exact < 0 ? -1 : 0;
  // two zeros result in zero in every order
  const bool nothing = most(g) == 0 && most(before.exp_avg) == 0;
  const Real unsure =
      !nothing && std::fabs(c.exact) <= c.error ? 2 : 0;  // rounding may have changed its sign
  const Value p = decayed(before.master, {lr_ * sign, lr_ * (unsure + gamma_of(2)) + eta});
  bound.exp_avg = judged(m.exact, m.error);
  bound.master = judged(p.exact, p.error);
}

void UpdateBounds::sgd(const Value& grad, const BoundedState& before, UpdateBound& bound) const {
  const Value g = gradient(grad, before);
  if (!no_overflow(g, hyper_.rule == UpdateRule::sgd ? before.momentum_buffer : before.exp_avg))
    return;
  Value direction = g;
  if (hyper_.rule == UpdateRule::sgd_ema) {
    direction = average(beta1_, new1_, before.exp_avg, g);
    bound.exp_avg = judged(direction.exact, direction.error);
  } else if (hyper_.momentum != 0) {
    const Real mu = hyper_.momentum;
    const Value b =
        t_ == 1 ? g
                : average(mu, 1 - static_cast<Real>(hyper_.dampening), before.momentum_buffer, g);
    bound.momentum_buffer = judged(b.exact, b.error);
    direction = b;
    if (hyper_.nesterov) {
      direction.exact = g.exact + mu * b.exact;
      const Real inner =
          g.error + mu * b.error * (1 + gamma_of(2)) + gamma_of(2) * std::fabs(mu * b.exact) + eta;
      direction.error = inner * (1 + u) + u * std::fabs(direction.exact);
    }
  }
  const Value p = moved(before.master, direction);
  bound.master = judged(p.exact, p.error);
}

UpdateBound UpdateBounds::operator()(const BoundedValue& grad, const BoundedState& before) const {
  UpdateBound bound;
  switch (hyper_.rule) {
    case UpdateRule::muon:  // of a tensor that is no matrix (R28)
    case UpdateRule::adamw:
    case UpdateRule::adam:
    case UpdateRule::lamb:
      adam(grad, before, bound);
      break;
    case UpdateRule::lion:
      lion(grad, before, bound);
      break;
    case UpdateRule::sgd:
    case UpdateRule::sgd_ema:
      sgd(grad, before, bound);
      break;
  }
  bound.master.cast_to_bf16 = bf16_master_;
  return bound;
}

UpdateBound UpdateBounds::operator()(float grad, const ElementState& before) const {
  UpdateBound bound = (*this)(Value{grad, 0}, exactly(before));
  if (bound.master.judged) return bound;  // every other result is then judged too
  const UpdateRanges ranges = classes_(grad, before);
  bound.master.classes = ranges.master.classes(bf16_master_);
  bound.exp_avg.classes = ranges.exp_avg.classes();
  bound.exp_avg_sq.classes = ranges.exp_avg_sq.classes();
  bound.max_exp_avg_sq.classes = ranges.max_exp_avg_sq.classes();
  bound.momentum_buffer.classes = ranges.momentum_buffer.classes();
  return bound;
}

}  // namespace zeroproof::verification
