// The bounds of muon's elementwise operations: legal orders are inside, wrong formulas outside.

#include "verification/compare/bounds/muon_bounds.hpp"

#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "reference/operations.hpp"

namespace muon_bounds_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

OptimizerHyper hyper_of(MomentumFamily family, bool nesterov, bool maximize) {
  OptimizerHyper hyper;
  hyper.rule = UpdateRule::muon;
  hyper.lr = 0.02;
  hyper.weight_decay = 0.1;
  hyper.momentum = 0.95;
  hyper.nesterov = nesterov;
  hyper.maximize = maximize;
  hyper.muon.family = family;
  return hyper;
}

/// kept * old + (1 - kept) * g as torch.lerp computes it.
float lerp(float old, float g, double kept) {
  const auto w = static_cast<float>(1 - kept);
  return w < 0.5F ? std::fmaf(w, g - old, old) : std::fmaf(w - 1, g - old, g);
}

struct Moved {
  float exp_avg, direction;
};

/// The contract's order (0), fused (1), increments (2), fp64 (3). wrong: the momentum of the step before.
Moved moved(const OptimizerHyper& h, int order, float grad, float m, bool wrong = false) {
  const StepScalars s = reference::step_scalars(h, 1, 0, 1);
  const bool ema = h.muon.family == MomentumFamily::ema;
  const double added = ema ? 1 - h.momentum : 1;
  Moved x{m, 0};
  float g = grad;
  if (order == 0) {
    reference::muon_momentum({}, {h.nesterov, h.maximize}, s, Span<const float>(&g, 1),
                             Span<float>(&x.exp_avg, 1), Span<float>(&x.direction, 1));
    return x;
  }
  if (h.maximize) g = -g;
  const auto average = [&](float old) {
    if (order == 1) return std::fmaf(s.momentum, old, static_cast<float>(added) * g);
    if (order == 2) return ema ? lerp(old, g, h.momentum) : std::fmaf(old, s.momentum, g);
    return static_cast<float>(h.momentum * old + added * g);
  };
  x.exp_avg = average(m);
  x.direction = h.nesterov ? average(wrong ? m : x.exp_avg) : x.exp_avg;
  return x;
}

/// The contract's order (0), decay as a factor (1), decay first (2), fused (3), fp64 (4); 5 is wrong: decay of the result.
float updated(const OptimizerHyper& h, int order, float step_size, float o, float p) {
  const StepScalars s = reference::step_scalars(h, 1, 0, 1);
  const double decay = h.lr * h.weight_decay;
  const float a = step_size * o;
  switch (order) {
    case 0:
      reference::muon_update({}, s, step_size, Span<const float>(&o, 1), Span<float>(&p, 1));
      return p;
    case 1:
      return p * static_cast<float>(1 - decay) - a;
    case 2:
      return (p - s.lr_weight_decay * p) - a;
    case 3:
      return std::fmaf(-step_size, o, p * static_cast<float>(1 - decay));
    case 4:
      return static_cast<float>(p - (double{step_size} * o + decay * p));
    default:
      return (p - a) * static_cast<float>(1 - decay);
  }
}

class Numbers {
 public:
  float operator()(double least, double most) {
    const double size = std::exp2(std::uniform_real_distribution(least, most)(bits_));
    return static_cast<float>(bits_() % 2 == 0 ? size : -size);
  }

 private:
  std::mt19937_64 bits_{7};
};

}  // namespace

TEST_CASE("muon bounds: momenta of four orders are inside, an old momentum is outside") {
  for (const MomentumFamily family : {MomentumFamily::ema, MomentumFamily::heavy_ball}) {
    for (const int options : {0, 1, 2, 3}) {
      const OptimizerHyper h = hyper_of(family, options % 2 == 1, options / 2 == 1);
      const MuonBounds bounds(h);
      Numbers number;
      double worst = 0;
      int outside = 0;
      for (int i = 0; i < 20000; ++i) {
        const float g = number(-30, 4), m = number(-30, 4);
        const MuonBounds::Momentum bound = bounds.momentum(g, m);
        REQUIRE(bound.exp_avg.judged);
        REQUIRE(bound.direction.judged);
        for (const int order : {0, 1, 2, 3}) {
          const Moved x = moved(h, order, g, m);
          worst =
              std::max({worst, bound.exp_avg.ratio(x.exp_avg), bound.direction.ratio(x.direction)});
        }
        outside += bound.direction.ratio(moved(h, 0, -g, m).direction) > 1 ? 1 : 0;
        if (h.nesterov)
          outside += bound.direction.ratio(moved(h, 1, g, m, true).direction) > 1 ? 1 : 0;
      }
      CHECK(worst <= 1);
      CHECK(worst > 0.3);
      CHECK(outside > 15000);
    }
  }
}

TEST_CASE("muon bounds: five orders of the master are inside, a decay of the result is outside") {
  const OptimizerHyper h = hyper_of(MomentumFamily::ema, true, false);
  const MuonBounds bounds(h);
  Numbers number;
  double worst = 0;
  int outside = 0;
  for (int i = 0; i < 50000; ++i) {
    const float step_size = std::fabs(number(-12, 0)), o = number(-12, 1), p = number(-14, 2);
    const ElementBound bound = bounds.master(step_size, o, p);
    REQUIRE(bound.judged);
    for (const int order : {0, 1, 2, 3, 4})
      worst = std::max(worst, bound.ratio(updated(h, order, step_size, o, p)));
    outside += bound.ratio(updated(h, 5, step_size, o, p)) > 1 ? 1 : 0;
  }
  CHECK(worst <= 1);
  CHECK(worst > 0.7);
  CHECK(outside > 10000);
}

TEST_CASE("muon bounds: what is not finite keeps the classes of a legal order") {
  const float inf = INFINITY, nan = NAN, huge = 0x1.8p127F;
  const MuonBounds bounds(hyper_of(MomentumFamily::heavy_ball, true, false));
  CHECK(bounds.momentum(nan, 1).direction.ratio(1) > 1);
  CHECK(bounds.momentum(nan, 1).direction.ratio(nan) == 0);
  CHECK(bounds.momentum(inf, 1).exp_avg.ratio(inf) == 0);
  CHECK(bounds.momentum(inf, 1).exp_avg.ratio(-inf) > 1);
  CHECK(bounds.momentum(inf, -inf).exp_avg.ratio(nan) == 0);
  CHECK(bounds.momentum(huge, huge).exp_avg.ratio(inf) == 0);
  CHECK(bounds.momentum(huge, huge).exp_avg.ratio(-inf) > 1);
  CHECK(bounds.master(1, nan, 0).ratio(0) > 1);
  CHECK(bounds.master(1, inf, 2).ratio(-inf) == 0);
  CHECK(bounds.master(1, inf, 2).ratio(2) > 1);
}

}  // namespace muon_bounds_test
