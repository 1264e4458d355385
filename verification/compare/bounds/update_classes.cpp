#include "verification/compare/bounds/update_classes.hpp"

#include "verification/compare/bounds/update_bounds.hpp"

namespace zeroproof::verification {
namespace {

using namespace bounds;

ResultRange scalar(Real value) { return ResultRange::of(value).rounded(); }

/// largest >= v ? largest : v, of which a NaN maximum is replaced and a NaN v kept.
ResultRange larger(float largest, const ResultRange& v) {
  const Real old = largest;
  if (std::isnan(old) || v.empty()) return v;
  return {std::max(old, v.low), std::max(old, v.high), v.nan};
}

}  // namespace

UpdateClasses::UpdateClasses(const OptimizerHyper& hyper, std::int64_t t, float trust_ratio)
    : hyper_(hyper),
      t_(t),
      beta1_(hyper.beta1),
      beta2_(hyper.beta2),
      lr_(scalar(hyper.lr)),
      decay_(scalar(hyper.weight_decay)),
      eps_(scalar(hyper.eps)),
      ratio_(ResultRange::of(trust_ratio)) {
  const auto correction = [&](Real beta) {
    return hyper.bias_correction ? 1 - std::pow(beta, static_cast<Real>(t)) : Real{1};
  };
  set_corrections(correction(beta1_), correction(beta2_));
}

void UpdateClasses::set_powers(float power1, float power2) {
  set_corrections(1 - static_cast<Real>(power1), 1 - static_cast<Real>(power2));
}

void UpdateClasses::set_corrections(Real correction1, Real correction2) {
  correction1_ = scalar(correction1);
  correction2_ = scalar(correction2);
  root_correction2_ = scalar(std::sqrt(correction2));
  step_size_ = scalar(hyper_.lr / correction1);
}

UpdateClasses::Range UpdateClasses::gradient(float grad, float master) const {
  const Range g = Range::of(hyper_.maximize ? -static_cast<Real>(grad) : static_cast<Real>(grad));
  const bool coupled = traits_of(hyper_.rule).decay == DecayKind::coupled;
  return coupled && hyper_.weight_decay != 0 ? g + decay_ * Range::of(master) : g;
}

UpdateClasses::Range UpdateClasses::average(Real weight, Real new_weight, const Range& old,
                                            const Range& grad) {
  const Range kept = scalar(weight), added = scalar(new_weight);
  const Range sum = kept * old + added * grad;
  if (std::fabs(weight + new_weight - 1) > u) return sum;  // as in UpdateBounds
  Range moves = {infinite, -infinite, false};
  if (new_weight <= weight) moves = old + added * (grad - old);
  if (weight <= new_weight) moves = moves.with(grad + kept * (old - grad));
  return sum.with(moves);
}

UpdateClasses::Range UpdateClasses::decayed(float master, const Range& a,
                                            const Range& direction) const {
  const Range p = Range::of(master);
  const Range step = ratio_ * a;
  // A kernel may evaluate a decay of 0, which is a NaN for an infinite parameter.
  const Range zero_decay = Range::of(0) * p;
  if (traits_of(hyper_.rule).decay != DecayKind::decoupled || hyper_.lr * hyper_.weight_decay == 0)
    return (p - step)
        .with(p - lr_ * (ratio_ * direction))
        .with(p - (ratio_ * lr_) * direction)
        .with(p - zero_decay - step);
  const Range rate = scalar(static_cast<Real>(hyper_.lr) * hyper_.weight_decay);
  const Range w = (rate * p).with(lr_ * (decay_ * p));
  const Range decay = (ratio_ * w).with((ratio_ * rate) * p);
  const Range both = direction + decay_ * p;
  return (p - (step + decay))
      .with(p - ratio_ * (a + w))
      .with((p - decay) - step)
      .with((p - step) - decay)
      .with(p * (Range::of(1) - ratio_ * rate) - step)
      .with(p - lr_ * (ratio_ * both))
      .with(p - (ratio_ * lr_) * both);
}

void UpdateClasses::adam(const Range& grad, const ElementState& before, UpdateRanges& after) const {
  const Range m = average(beta1_, 1 - beta1_, Range::of(before.exp_avg), grad);
  // an interval with the squares in fp64 contains (o2 g) g
  const Range v = scalar(beta2_) * Range::of(before.exp_avg_sq) + scalar(1 - beta2_) * square(grad);
  const Range x = hyper_.amsgrad ? larger(before.max_exp_avg_sq, v) : v;
  after.exp_avg = m;
  after.exp_avg_sq = v;
  if (hyper_.amsgrad) after.max_exp_avg_sq = x;
  const Range d = (root(x) / root_correction2_).with(root(x / correction2_)) + eps_;
  const Range direction = ((m / correction1_) / d).with((m / d) / correction1_);
  const Range merged =
      ((step_size_ * root_correction2_) * m) / (root(x) + eps_ * root_correction2_);
  const Range a =
      (step_size_ * (m / d)).with((step_size_ * m) / d).with(lr_ * direction).with(merged);
  after.master = decayed(before.master, a, direction);
}

void UpdateClasses::lion(const Range& grad, const ElementState& before, UpdateRanges& after) const {
  const Range old = Range::of(before.exp_avg);
  const auto sign = [](Real x) -> Real { return x > 0 ? 1 : x < 0 ? -1 : 0; };
  const Range c = average(beta1_, 1 - beta1_, old, grad);
  const Range direction = c.empty() ? c : Range{sign(c.low), sign(c.high), c.nan};
  after.exp_avg = average(beta2_, 1 - beta2_, old, grad);
  after.master = decayed(before.master, lr_ * direction, direction);
}

void UpdateClasses::sgd(const Range& grad, const ElementState& before, UpdateRanges& after) const {
  Range direction = grad;
  if (hyper_.rule == UpdateRule::sgd_ema) {
    direction = after.exp_avg = average(beta1_, 1 - beta1_, Range::of(before.exp_avg), grad);
  } else if (hyper_.momentum != 0) {
    const Real momentum = hyper_.momentum;
    if (t_ != 1)
      direction = average(momentum, 1 - static_cast<Real>(hyper_.dampening),
                          Range::of(before.momentum_buffer), grad);
    after.momentum_buffer = direction;
    if (hyper_.nesterov) direction = grad + scalar(momentum) * direction;
  }
  after.master = decayed(before.master, lr_ * direction, direction);
}

UpdateRanges UpdateClasses::operator()(float grad, const ElementState& before) const {
  UpdateRanges after;
  const Range g = gradient(grad, before.master);
  switch (hyper_.rule) {
    case UpdateRule::muon:  // of a tensor that is no matrix (R28)
    case UpdateRule::adamw:
    case UpdateRule::adam:
    case UpdateRule::lamb:
      adam(g, before, after);
      break;
    case UpdateRule::lion:
      lion(g, before, after);
      break;
    case UpdateRule::sgd:
    case UpdateRule::sgd_ema:
      sgd(g, before, after);
      break;
  }
  return after;
}

}  // namespace zeroproof::verification
