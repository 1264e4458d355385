#include "verification/compare/bounds/muon_bounds.hpp"

#include "verification/compare/bounds/model.hpp"
#include "verification/compare/bounds/result_range.hpp"

namespace zeroproof::verification {
namespace {

using namespace bounds;

double new_weight(const OptimizerHyper& hyper) {
  return hyper.muon.family == MomentumFamily::ema ? 1 - hyper.momentum : 1;
}

/// The rule whose momentum buffer is the momentum of muon, after its first step.
OptimizerHyper as_sgd(const OptimizerHyper& hyper) {
  OptimizerHyper sgd = hyper;
  sgd.rule = UpdateRule::sgd;
  sgd.dampening = 1 - new_weight(hyper);
  sgd.nesterov = false;
  sgd.weight_decay = 0;
  sgd.muon = {};
  return sgd;
}

ResultRange scalar(double value) { return ResultRange::of(value).rounded(); }

/// weight * old + new_weight * g, and its increments where the weights add up to 1.
ResultRange average(const OptimizerHyper& hyper, const ResultRange& old, const ResultRange& g) {
  const ResultRange kept = scalar(hyper.momentum), added = scalar(new_weight(hyper));
  const ResultRange sum = kept * old + added * g;
  if (hyper.muon.family != MomentumFamily::ema) return sum;
  return sum.with(old + added * (g - old)).with(g + kept * (old - g));
}

}  // namespace

MuonBounds::MuonBounds(const OptimizerHyper& hyper)
    : hyper_(hyper), average_(as_sgd(hyper), 2), decay_(hyper, 2) {}

MuonBounds::Momentum MuonBounds::momentum(float grad, float exp_avg) const {
  const auto averaged = [&](const BoundedValue& old) {
    return average_(BoundedValue{grad, 0}, BoundedState{{}, {}, {}, {}, old}).momentum_buffer;
  };
  Momentum bound;
  const bool keeps = hyper_.momentum != 0;  // sgd has no buffer otherwise
  const double sign = hyper_.maximize ? -1 : 1;
  bound.exp_avg = keeps
                      ? averaged({exp_avg, 0})
                      : ElementBound{sign * grad, 0, std::isfinite(grad) && std::isfinite(exp_avg)};
  bound.direction = bound.exp_avg;
  if (hyper_.nesterov && bound.exp_avg.judged)
    bound.direction = averaged({bound.exp_avg.exact, bound.exp_avg.allowed});
  const ResultRange g = ResultRange::of(sign * grad);
  const ResultRange moved = average(hyper_, ResultRange::of(exp_avg), g);
  bound.exp_avg.classes = moved.classes();
  bound.direction.classes =
      hyper_.nesterov ? average(hyper_, moved, g).classes() : bound.exp_avg.classes;
  if (!bound.exp_avg.judged) bound.direction.judged = false;
  return bound;
}

ElementBound MuonBounds::master(float step_size, float orthogonal, float master) const {
  const Real a = static_cast<Real>(step_size) * static_cast<Real>(orthogonal);
  ElementBound bound = decay_.decoupled({master, 0}, {a, gamma_of(1) * std::fabs(a) + eta});
  const ResultRange p = ResultRange::of(master);
  const ResultRange step = ResultRange::of(step_size) * ResultRange::of(orthogonal);
  ResultRange moved = p - step;
  if (hyper_.lr * hyper_.weight_decay != 0) {
    const ResultRange rate = scalar(hyper_.lr * hyper_.weight_decay), decay = rate * p;
    moved = (p - (step + decay)).with((p - decay) - step).with((p - step) - decay);
    moved = moved.with(p * (ResultRange::of(1) - rate) - step);
  }
  bound.classes = moved.classes();
  return bound;
}

}  // namespace zeroproof::verification
