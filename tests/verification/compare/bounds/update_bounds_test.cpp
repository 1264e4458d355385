// The bounds of foreign updates: every legal order is inside, some nearly reach them, and wrong
// updates are outside.

#include <doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cfloat>
#include <cmath>
#include <functional>
#include <random>
#include <string>

#include "common/base/error.hpp"
#include "common/base/float_formats.hpp"
#include "reference/operations.hpp"
#include "reference/update_operations.hpp"
#include "verification/compare/bounds/update_bounds.hpp"

namespace update_bounds_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

struct Problem {
  OptimizerHyper hyper;
  std::int64_t t = 1;
  StepScalars s{};
  double bias1 = 1, bias2 = 1;
  float ratio = 1;  ///< of lamb
};

Problem problem_of(const OptimizerHyper& hyper, std::int64_t t) {
  Problem p{hyper, t, reference::step_scalars(hyper, t, 0, 1)};
  p.bias1 = 1 - std::pow(double{hyper.beta1}, static_cast<double>(t));
  p.bias2 = 1 - std::pow(double{hyper.beta2}, static_cast<double>(t));
  return p;
}

/// The contract's order.
ElementState contract(const Problem& p, float g, ElementState x) {
  const auto one = [](float& value) { return Span<float>(&value, 1); };
  reference::update_by_rule(
      p.hyper, p.s, p.ratio, Span<const float>(&g, 1), one(x.master),
      {one(x.exp_avg), one(x.exp_avg_sq), p.hyper.amsgrad ? one(x.max_exp_avg_sq) : Span<float>{},
       p.hyper.momentum != 0 ? one(x.momentum_buffer) : Span<float>{}});
  return x;
}

/// Differences instead of sums, fused, with the decay as a factor: PyTorch's CPU kernels.
ElementState moves(const Problem& p, float g, ElementState x) {
  const auto w = static_cast<float>(1 - double{p.hyper.beta1});
  x.master = x.master * static_cast<float>(1 - p.hyper.lr * p.hyper.weight_decay);
  x.exp_avg =
      w < 0.5F ? std::fmaf(w, g - x.exp_avg, x.exp_avg) : std::fmaf(w - 1, g - x.exp_avg, g);
  x.exp_avg_sq = std::fmaf(p.s.one_minus_beta2 * g, g, x.exp_avg_sq * p.s.beta2);
  const float d = std::sqrt(x.exp_avg_sq) / p.s.sqrt_bias_correction2 + p.s.eps;
  x.master = x.master + (-p.s.step_size * x.exp_avg) / d;
  return x;
}

/// Corrected moments, and the rate applied last: fused kernels on devices.
ElementState corrected(const Problem& p, float g, ElementState x, bool contracted) {
  const float kept = x.exp_avg * p.s.beta1;
  x.exp_avg = contracted ? std::fmaf(p.s.one_minus_beta1, g, kept) : kept + p.s.one_minus_beta1 * g;
  const float scaled = p.s.one_minus_beta2 * g;
  const float kept_sq = x.exp_avg_sq * p.s.beta2;
  x.exp_avg_sq = contracted ? std::fmaf(scaled, g, kept_sq) : kept_sq + scaled * g;
  const float mh = x.exp_avg / static_cast<float>(p.bias1);
  const float vh = x.exp_avg_sq / static_cast<float>(p.bias2);
  const float step = mh / (std::sqrt(vh) + p.s.eps);
  const float u =
      contracted ? std::fmaf(p.s.weight_decay, x.master, step) : step + p.s.weight_decay * x.master;
  x.master = contracted ? std::fmaf(-p.s.lr, u, x.master) : x.master - p.s.lr * u;
  return x;
}

/// Decay before or after the step, a reciprocal instead of a quotient.
ElementState twice(const Problem& p, float g, ElementState x, bool decay_first) {
  const float w = p.s.lr_weight_decay * x.master;
  x.exp_avg = p.s.beta1 * x.exp_avg + p.s.one_minus_beta1 * g;
  const float square = g * g;
  x.exp_avg_sq = p.s.beta2 * x.exp_avg_sq + p.s.one_minus_beta2 * square;
  const float reciprocal = 1 / p.s.sqrt_bias_correction2;
  const float a = p.s.step_size * (x.exp_avg / (std::sqrt(x.exp_avg_sq) * reciprocal + p.s.eps));
  x.master = decay_first ? (x.master - w) - a : (x.master - a) - w;
  return x;
}

/// Both corrections in one rate and one eps.
ElementState merged(const Problem& p, float g, ElementState x) {
  x.exp_avg = p.s.beta1 * x.exp_avg + p.s.one_minus_beta1 * g;
  const float square = g * g;
  x.exp_avg_sq = p.s.beta2 * x.exp_avg_sq + p.s.one_minus_beta2 * square;
  const double root = std::sqrt(p.bias2);
  const auto rate = static_cast<float>(p.hyper.lr * root / p.bias1),
             eps = static_cast<float>(p.hyper.eps * root);
  const float a = rate * x.exp_avg / (std::sqrt(x.exp_avg_sq) + eps);
  x.master = x.master - (a + p.s.lr_weight_decay * x.master);
  return x;
}

/// Every operation in fp64, where nothing overflows.
ElementState in_double(const Problem& p, float g, ElementState x) {
  const double beta1 = p.hyper.beta1, beta2 = p.hyper.beta2;
  const double m = beta1 * x.exp_avg + (1 - beta1) * g;
  const double v = beta2 * x.exp_avg_sq + (1 - beta2) * g * g;
  const double step = p.hyper.lr / p.bias1 * m / (std::sqrt(v / p.bias2) + p.hyper.eps);
  x.exp_avg = static_cast<float>(m);
  x.exp_avg_sq = static_cast<float>(v);
  const double decay = p.hyper.lr * p.hyper.weight_decay;
  x.master = static_cast<float>(x.master - step - (decay == 0 ? 0 : decay * x.master));
  return x;
}

/// kept * old + (1 - kept) * g as an increment, with the smaller weight in front.
float incremented(float old, float g, double kept) {
  return kept > 0.5 ? old + static_cast<float>(1 - kept) * (g - old)
                    : g + static_cast<float>(kept) * (old - g);
}

/// Fused, or with Real = double every operation in fp64.
template <class Real>
ElementState fused_sgd(const Problem& p, float grad, ElementState x) {
  const auto momentum = static_cast<Real>(p.hyper.momentum);
  Real g = grad;
  if (p.s.has_decay != 0) g = std::fma(static_cast<Real>(p.hyper.weight_decay), x.master, g);
  Real e = g;
  if (momentum != 0) {
    e = p.t == 1 ? g : std::fma(momentum, x.momentum_buffer, Real(1 - p.hyper.dampening) * g);
    x.momentum_buffer = static_cast<float>(e);
    if (p.hyper.nesterov) e = std::fma(momentum, e, g);
  }
  x.master = static_cast<float>(std::fma(-static_cast<Real>(p.hyper.lr), e, Real(x.master)));
  return x;
}

/// A dampened momentum that is an average as an increment of the buffer; otherwise the contract.
ElementState incremented_sgd(const Problem& p, float g, const ElementState& x) {
  ElementState y = contract(p, g, x);
  if (p.hyper.momentum == 0 || p.hyper.dampening != p.hyper.momentum || p.t == 1) return y;
  if (p.s.has_decay != 0) g = g + p.s.weight_decay * x.master;
  y.momentum_buffer = incremented(x.momentum_buffer, g, p.hyper.momentum);
  y.master = x.master - p.s.lr * y.momentum_buffer;
  return y;
}

template <class Real>
Real sign_of(Real c) {
  return c > 0 ? 1 : c < 0 ? -1 : c;
}

/// Fused, the rate around the sum; or with Real = double every operation in fp64.
template <class Real>
ElementState fused_lion(const Problem& p, float grad, ElementState x) {
  const Real beta1 = p.hyper.beta1, beta2 = p.hyper.beta2, g = grad;
  Real u = sign_of(std::fma(static_cast<Real>(1 - double{p.hyper.beta1}), g, beta1 * x.exp_avg));
  if (p.s.has_decay != 0) u = std::fma(static_cast<Real>(p.hyper.weight_decay), x.master, u);
  x.master = static_cast<float>(std::fma(-static_cast<Real>(p.hyper.lr), u, Real(x.master)));
  x.exp_avg = static_cast<float>(
      std::fma(static_cast<Real>(1 - double{p.hyper.beta2}), g, beta2 * x.exp_avg));
  return x;
}

/// Increments, and the decay as a factor: PyTorch forms of Lion.
ElementState incremented_lion(const Problem& p, float g, ElementState x) {
  const float direction = sign_of(incremented(x.exp_avg, g, p.hyper.beta1));
  x.master = x.master * static_cast<float>(1 - p.hyper.lr * p.hyper.weight_decay);
  x.master = x.master - p.s.lr * direction;
  x.exp_avg = incremented(x.exp_avg, g, p.hyper.beta2);
  return x;
}

using Kernel = std::function<ElementState(const Problem&, float, const ElementState&)>;

const std::vector<std::pair<std::string, Kernel>>& legal_kernels() {
  static const std::vector<std::pair<std::string, Kernel>> all = {
      {"contract", contract},
      {"moves", moves},
      {"merged", merged},
      {"in fp64", in_double},
      {"corrected", [](auto& p, float g, auto& x) { return corrected(p, g, x, false); }},
      {"corrected, contracted", [](auto& p, float g, auto& x) { return corrected(p, g, x, true); }},
      {"decay first", [](auto& p, float g, auto& x) { return twice(p, g, x, true); }},
      {"step first", [](auto& p, float g, auto& x) { return twice(p, g, x, false); }}};
  return all;
}

/// A trust ratio in other places than the contract's: on both parts, on the decay's factor, on the
/// rate.
ElementState ratio_on(const std::string& place, const Problem& p, float g, const ElementState& x) {
  ElementState y = contract(p, g, x);
  const float q = y.exp_avg / (std::sqrt(y.exp_avg_sq) / p.s.sqrt_bias_correction2 + p.s.eps);
  const float a = p.s.step_size * q;
  if (place == "parts") {
    y.master = (x.master - p.ratio * (p.s.lr_weight_decay * x.master)) - p.ratio * a;
  } else if (place == "factor") {
    y.master = x.master * (1 - p.ratio * p.s.lr_weight_decay) - p.ratio * a;
  } else {
    const float corrected = q / static_cast<float>(p.bias1);
    y.master = x.master - (p.ratio * p.s.lr) * (corrected + p.s.weight_decay * x.master);
  }
  return y;
}

const std::vector<std::pair<std::string, Kernel>>& legal_lamb_kernels() {
  static const std::vector<std::pair<std::string, Kernel>> all = [] {
    std::vector<std::pair<std::string, Kernel>> kernels = {{"contract", contract}};
    for (const std::string place : {"parts", "factor", "rate"}) {
      kernels.emplace_back(place, [place](const Problem& p, float g, const ElementState& x) {
        return ratio_on(place, p, g, x);
      });
    }
    return kernels;
  }();
  return all;
}

const std::vector<std::pair<std::string, Kernel>>& contract_alone() {
  static const std::vector<std::pair<std::string, Kernel>> one = {{"contract", contract}};
  return one;
}

const std::vector<std::pair<std::string, Kernel>>& legal_kernels_of(UpdateRule rule) {
  static const std::vector<std::pair<std::string, Kernel>> sgd = {{"contract", contract},
                                                                  {"fused", fused_sgd<float>},
                                                                  {"in fp64", fused_sgd<double>},
                                                                  {"increments", incremented_sgd}};
  static const std::vector<std::pair<std::string, Kernel>> lion = {
      {"contract", contract},
      {"fused", fused_lion<float>},
      {"in fp64", fused_lion<double>},
      {"increments", incremented_lion},
      {"decay first", [](const Problem& p, float g, const ElementState& x) {
         ElementState y = contract(p, g, {0, x.exp_avg});  // the step alone
         y.master = (x.master - p.s.lr_weight_decay * x.master) + y.master;
         return y;
       }}};
  switch (rule) {
    case UpdateRule::muon:  // of a tensor that is no matrix (R28)
    case UpdateRule::adamw:
      return legal_kernels();
    case UpdateRule::lamb:
      return legal_lamb_kernels();
    case UpdateRule::sgd:
      return sgd;
    case UpdateRule::lion:
      return lion;
    default:
      return contract_alone();
  }
}

class Draws {
 public:
  explicit Draws(unsigned seed) : random_(seed) {}

  Problem problem(UpdateRule rule) {
    OptimizerHyper h;
    h.rule = rule;
    h.lr = std::exp2(uniform(-14, 0));
    h.beta1 = static_cast<float>(std::array{0.9, 0.95, 0.5, 0.999}[random_() % 4]);
    h.beta2 = static_cast<float>(std::array{0.999, 0.95, 0.75, 0.9999}[random_() % 4]);
    h.eps = std::array{1e-8, 1e-6, 1e-3, 0.1}[random_() % 4];
    h.weight_decay = std::array{0.0, 0.01, 0.1, 0.7}[random_() % 4];
    if (rule == UpdateRule::sgd) {
      h.momentum = std::array{0.0, 0.9, 0.3, 0.99}[random_() % 4];
      h.nesterov = h.momentum != 0 && random_() % 3 == 0;
      if (h.momentum != 0 && !h.nesterov)
        h.dampening = std::array{0.0, 0.1, h.momentum}[random_() % 3];
    }
    Problem p = problem_of(h, std::array{1, 2, 3, 17, 1001}[random_() % 5]);
    if (traits_of(rule).trust_ratio) p.ratio = static_cast<float>(std::exp2(uniform(-6, 6)));
    return p;
  }

  float number(double low, double high) {
    const double magnitude = std::exp2(uniform(low, high));
    return static_cast<float>(random_() % 2 == 0 ? magnitude : -magnitude);
  }

  ElementState element(float grad) {
    ElementState x;
    x.master = number(-12, 2);
    x.exp_avg =
        random_() % 8 == 0 ? -grad / 9 : number(-30, 0);  // sometimes nearly cancels the gradient
    x.exp_avg_sq = std::fabs(number(-50, 0));
    x.momentum_buffer = x.exp_avg;
    return x;
  }

  double uniform(double low, double high) {
    return std::uniform_real_distribution<>(low, high)(random_);
  }

 private:
  std::mt19937 random_;
};

struct Worst {
  double master = 0, exp_avg = 0, exp_avg_sq = 0;  ///< exp_avg: or the momentum buffer
  int judged = 0, outside = 0;

  void add(const UpdateBound& bound, const ElementState& got) {
    if (!bound.master.judged) {
      ++outside;
      return;
    }
    ++judged;
    const auto keep = [](double& worst, const ElementBound& of, float value) {
      if (of.judged && !(of.ratio(value) <= worst)) worst = of.ratio(value);  // keeps a NaN
    };
    keep(master, bound.master, got.master);
    keep(exp_avg, bound.exp_avg, got.exp_avg);
    keep(exp_avg, bound.momentum_buffer, got.momentum_buffer);
    keep(exp_avg_sq, bound.exp_avg_sq, got.exp_avg_sq);
  }
};

Worst worst_of(const Kernel& kernel, UpdateRule rule, int count) {
  Draws draws(11);
  Worst worst;
  for (int i = 0; i < count; ++i) {
    const Problem p = draws.problem(rule);
    const UpdateBounds bounds(p.hyper, p.t, p.ratio);
    for (int k = 0; k < 64; ++k) {
      const float g = draws.number(-28, 4);
      const ElementState x = draws.element(g);
      worst.add(bounds(g, x), kernel(p, g, x));
    }
  }
  return worst;
}

void check_legal(UpdateRule rule) {
  Worst all;
  // clang does not let CAPTURE have structured bindings
  for (const auto& kernel : legal_kernels_of(rule)) {
    const std::string& name = kernel.first;
    CAPTURE(name);
    const Worst worst = worst_of(kernel.second, rule, 3000);
    CHECK(worst.master <= 1);
    CHECK(worst.exp_avg <= 1);
    CHECK(worst.exp_avg_sq <= 1);
    CHECK(worst.judged > 9 * worst.outside);
    MESSAGE(name << ": master " << worst.master << ", exp_avg " << worst.exp_avg << ", exp_avg_sq "
                 << worst.exp_avg_sq << " of their bounds, " << worst.judged << " elements, "
                 << worst.outside << " outside");
    all.master = std::max(all.master, worst.master);
    all.exp_avg = std::max(all.exp_avg, worst.exp_avg);
    all.exp_avg_sq = std::max(all.exp_avg_sq, worst.exp_avg_sq);
  }
  CHECK(all.master >= 0.5);
  CHECK(all.exp_avg >= 0.5);
  if (traits_of(rule).keeps[StateSlot::exp_avg_sq]) CHECK(all.exp_avg_sq >= 0.5);
}

}  // namespace

TEST_CASE("bounds: every legal order of AdamW is inside, and some nearly reach them") {
  check_legal(UpdateRule::adamw);
}

TEST_CASE("bounds: every legal order of SGD and Lion is inside, and some nearly reach them") {
  check_legal(UpdateRule::sgd);
  check_legal(UpdateRule::lion);
}

TEST_CASE("bounds: every legal place of LAMB's ratio is inside, and another ratio is not") {
  check_legal(UpdateRule::lamb);
  const Kernel another = [](Problem p, float g, const ElementState& x) {
    p.ratio *= 1 + 0x1p-18F;
    return contract(p, g, x);
  };
  CHECK(worst_of(another, UpdateRule::lamb, 100).master > 1);
  OptimizerHyper h;
  h.rule = UpdateRule::lamb;
  for (const float ratio : {NAN, INFINITY, -1.0F})
    CHECK_FALSE(UpdateBounds(h, 1, ratio)(1, {.master = 1}).master.judged);
}

TEST_CASE("bounds: the contract's own updates stay inside, by every rule") {
  for (const UpdateRule rule : {UpdateRule::adam, UpdateRule::sgd_ema}) {
    CAPTURE(static_cast<int>(rule));
    const Worst worst = worst_of(contract, rule, 1500);
    CHECK(worst.master <= 1);
    CHECK(worst.master >= 0.3);
    CHECK(worst.exp_avg <= 1);
  }
}

TEST_CASE("bounds: wrong updates are outside") {
  const auto outside = [](const Kernel& wrong) {
    Draws draws(3);
    int found = 0;
    for (int i = 0; i < 2000; ++i) {
      OptimizerHyper h;
      h.weight_decay = 0.1;
      const Problem p = problem_of(h, 5);
      const float g = draws.number(-30, -20);
      ElementState x;
      x.master = draws.number(-6, 0);
      x.exp_avg = g / 3;
      x.exp_avg_sq = g * g / 64;
      const UpdateBound bound = UpdateBounds(p.hyper, p.t)(g, x);
      REQUIRE(bound.master.judged);
      const ElementState y = wrong(p, g, x);
      const bool inside = bound.master.ratio(y.master) <= 1 &&
                          bound.exp_avg.ratio(y.exp_avg) <= 1 &&
                          bound.exp_avg_sq.ratio(y.exp_avg_sq) <= 1;
      found += inside ? 0 : 1;
    }
    return found;
  };
  CHECK(outside(contract) == 0);
  CHECK(outside([](const Problem& p, float g, ElementState x) {  // eps under the root
          ElementState y = contract(p, g, x);
          const float d = std::sqrt(y.exp_avg_sq / static_cast<float>(p.bias2) + p.s.eps);
          y.master = x.master - (p.s.step_size * (y.exp_avg / d) + p.s.lr_weight_decay * x.master);
          return y;
        }) > 1900);
  CHECK(outside([](const Problem& p, float g, ElementState x) {  // 1 - beta with three digits
          Problem rounded = p;
          rounded.s.one_minus_beta2 = 0.00101F;
          return contract(rounded, g, x);
        }) > 1900);
  CHECK(outside([](const Problem&, float, const ElementState& x) { return x; }) ==
        2000);                                                          // nothing was written
  CHECK(outside([](const Problem& p, float g, const ElementState& x) {  // no correction of the bias
          Problem plain = p;
          plain.hyper.bias_correction = false;
          return contract(problem_of(plain.hyper, p.t), g, x);
        }) == 2000);
  CHECK(outside(
            [](const Problem& p, float g, const ElementState& x) {  // NaN where a number should be
              ElementState y = contract(p, g, x);
              y.exp_avg = std::nanf("");
              return y;
            }) == 2000);
}

TEST_CASE("bounds: a bf16 parameter is within them if a legal value is rounded to it, by hand") {
  constexpr long double unit = 0x1p-7L;  // in the last place of bf16, from 1 to 2
  const auto bf16_of = [](long double exact, long double allowed) {
    ElementBound bound{exact, allowed, true};
    bound.cast_to_bf16 = true;
    return bound;
  };
  const ElementBound near_one = bf16_of(1 + unit / 4, unit / 8);
  CHECK(near_one.ratio(1) == 0);
  CHECK(near_one.ratio(1 + 0x1p-7) == 2);  // its values begin unit / 4 above
  CHECK(near_one.ratio(1 - 0x1p-8) ==
        4);  // the unit below 1 is half: its values end at 1 - unit / 4
  CHECK(bf16_of(1 + unit / 4, unit / 4).ratio(1 + 0x1p-7) == 1);  // a tie is a value of both
  CHECK(bf16_of(1 + unit / 2, unit).ratio(1) == 0);
  CHECK(bf16_of(1 + unit / 2, unit).ratio(1 + 0x1p-7) == 0);
  CHECK(bf16_of(-1 - unit / 4, unit / 8).ratio(-1) == 0);
  CHECK(bf16_of(-1 - unit / 4, unit / 8).ratio(-1 - 0x1p-7) == 2);
  CHECK(std::isinf(bf16_of(1, unit).ratio(NAN)));
  CHECK(std::isinf(bf16_of(1, unit).ratio(INFINITY)));
  // Zero, with values up to half of the smallest number, and the largest number.
  CHECK(bf16_of(0x1p-135L, 0x1p-135L).ratio(0) == 0);
  CHECK(bf16_of(0x1p-135L, 0x1p-135L).ratio(0x1p-133) == 1);
  CHECK(bf16_of(-0x1p-135L, 0x1p-137L).ratio(0x1p-133) > 1);
  CHECK(bf16_of(0x1p128L - 0x1p120L, 1).ratio(0x1.FEp127) == 0);
  CHECK(bf16_of(0x1p128L - 0x1p118L, 0x1p118L).ratio(0x1.FEp127) == 1);
}

TEST_CASE("bounds: legal orders with a bf16 parameter are inside, and other roundings are not") {
  const auto cast = [](float x) {
    bf16 result;
    reference::cast_to_bf16({}, Span<const float>(&x, 1), Span<bf16>(&result, 1));
    return to_float(result);
  };
  const auto truncated = [](float x) {
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0xFFFF0000U);
  };
  const auto outside = [&](UpdateRule rule, const Kernel& kernel) {
    Draws draws(5);
    int found = 0;
    for (int i = 0; i < 200; ++i) {
      const Problem p = draws.problem(rule);
      UpdateBounds bounds(p.hyper, p.t);
      bounds.cast_master_to_bf16();
      for (int k = 0; k < 64; ++k) {
        const float g = cast(draws.number(-28, 4));
        ElementState x = draws.element(g);
        x.master = cast(x.master);
        found += bounds(g, x).master.ratio(kernel(p, g, x).master) <= 1 ? 0 : 1;
      }
    }
    return found;
  };
  for (const UpdateRule rule : {UpdateRule::adamw, UpdateRule::sgd, UpdateRule::lion}) {
    CAPTURE(traits_of(rule).name);
    for (const auto& kernel : legal_kernels_of(rule)) {
      const std::string& name = kernel.first;
      CAPTURE(name);
      const auto with = [&](const auto& rounding) {
        return [&](const Problem& p, float g, const ElementState& x) {
          ElementState y = kernel.second(p, g, x);
          y.master = rounding(y.master);
          return y;
        };
      };
      CHECK(outside(rule, with(cast)) == 0);
      CHECK(outside(rule, with(truncated)) > 12800 / 4);  // half of the results that are not exact
    }
    const auto decayed_by = [&](const auto& decay) {
      return [&](Problem p, float g, ElementState x) {
        if (p.s.has_decay != 0) decay(p, g, x);
        p.s.has_decay = 0;
        ElementState y = contract(p, g, x);
        y.master = cast(y.master);
        return y;
      };
    };
    CHECK(outside(rule, decayed_by([](auto&&...) {})) > 1000);  // lost
    // Rounded after the decay too: the gradient of sgd, the parameter of the others.
    const auto rounded = [&](const Problem& p, float& g, ElementState& x) {
      if (rule == UpdateRule::sgd)
        g = cast(g + p.s.weight_decay * x.master);
      else
        x.master = cast(x.master - p.s.lr_weight_decay * x.master);
    };
    CHECK(outside(rule, decayed_by(rounded)) > 100);
  }
  CHECK(outside(UpdateRule::adamw,
                [&](const Problem& p, float g, ElementState x) {  // moments in bf16
                  const Problem without = [&] {
                    Problem q = p;
                    q.s.lr_weight_decay = 0;
                    q.s.has_decay = 0;
                    return q;
                  }();
                  ElementState y = contract(without, g, {0, x.exp_avg, x.exp_avg_sq});
                  const float root = std::sqrt(cast(y.exp_avg_sq)) / p.s.sqrt_bias_correction2;
                  const float a = p.s.step_size * (cast(y.exp_avg) / (root + p.s.eps));
                  y.master = cast(x.master - (a + p.s.lr_weight_decay * x.master));
                  return y;
                }) > 100);
}

TEST_CASE("bounds: by hand, and outside the conditions") {
  OptimizerHyper h;
  h.rule = UpdateRule::sgd;
  h.lr = 0.5;
  h.weight_decay = 0;
  const UpdateBound sgd = UpdateBounds(h, 1)(4, {.master = 1});
  CHECK(static_cast<double>(sgd.master.exact) == -1);
  CHECK(sgd.master.ratio(-1) == 0);
  // Two roundings of s = 2, one of the result: 5 u, and the bound's terms for higher orders and for
  // its 64 bits.
  CHECK(sgd.master.allowed > 5 * 0x1p-24L);
  CHECK(sgd.master.allowed < 5 * 0x1p-24L * (1 + 0x1p-20L));
  CHECK_FALSE(sgd.exp_avg.judged);
  h.rule = UpdateRule::adamw;
  const UpdateBound first = UpdateBounds(h, 1)(4, {.master = 1});
  CHECK(first.exp_avg.exact == 4 * (1 - static_cast<long double>(h.beta1)));
  CHECK(first.master.ratio(0.5F) <=
        1);  // 1 - 2 / (4 + eps) is nearer than one unit in the last place
  CHECK(first.master.ratio(0.5F + 0x1p-20F) > 1);
  CHECK(first.master.judged);
  CHECK_FALSE(UpdateBounds(h, 1)(INFINITY, {.master = 1}).master.judged);
  CHECK_FALSE(
      UpdateBounds(h, 1)(0x1p64F, {.master = 1}).exp_avg_sq.judged);  // its square overflows
  CHECK_FALSE(UpdateBounds(h, 1)(1, {.master = 1, .exp_avg = 0x1p127F})
                  .exp_avg.judged);  // and a move might
  CHECK_FALSE(UpdateBounds(h, 1)(1, {.master = 1, .exp_avg_sq = -1}).master.judged);
  CHECK_FALSE(UpdateBounds(h, 1)(0x1p-75F, {.master = 1}).exp_avg_sq.ratio(NAN) <= 1);
  h.eps = 0;
  CHECK_THROWS_AS(UpdateBounds(h, 1), Error);
  h.rule = UpdateRule::lion;
  h.eps = 1e-8;
  const UpdateBound nothing = UpdateBounds(h, 1)(0, {.master = 1});
  CHECK(nothing.master.ratio(1) <= 1);  // in every order two zeros give 0
  CHECK(nothing.master.ratio(0.5F) > 1);
  const float g = 0x1p-149F;
  const UpdateBound sign = UpdateBounds(h, 1)(g, {.master = 1});
  CHECK(sign.master.ratio(0.5F) <= 1);  // the sign of a number that may underflow is arbitrary
  CHECK(sign.master.ratio(1.5F) <= 1);
}

TEST_CASE("bounds: no legal order of special numbers is of another class") {
  constexpr std::array<float, 16> numbers = {
      0,      -0.0F,   1,       -1,       0x1p-149F, 1e-25F, -1e-25F,   1e20F,
      -1e20F, 0x1p64F, FLT_MAX, -FLT_MAX, INFINITY,  NAN,    -INFINITY, 0x1.fffffep63F};
  for (const UpdateRule rule : {UpdateRule::adamw, UpdateRule::adam, UpdateRule::lamb,
                                UpdateRule::lion, UpdateRule::sgd_ema, UpdateRule::sgd}) {
    Draws draws(7);
    const auto number = [&] { return numbers[static_cast<std::size_t>(draws.uniform(0, 16))]; };
    int by_class = 0, not_judged = 0, all = 0, wrong = 0;
    for (int i = 0; i < 1000; ++i) {
      Problem p = draws.problem(rule);
      const bool zeros = i % 8 == 0;  // factors that are 0 and multiplied with
      if (zeros) p.hyper.lr = p.hyper.beta1 = 0;
      const auto& kernels =
          zeros || p.hyper.weight_decay == 0 ? contract_alone() : legal_kernels_of(rule);
      const float ratio = p.ratio;
      p = problem_of(p.hyper, p.t);
      p.ratio = ratio;
      const UpdateBounds bounds(p.hyper, p.t, p.ratio);
      UpdateBounds bf16_bounds = bounds;
      bf16_bounds.cast_master_to_bf16();
      for (int k = 0; k < 128; ++k) {
        const float g = number();
        const ElementState x = {number(), number(), std::fabs(number()), 0, number()};
        const UpdateBound bound = bounds(g, x), in_bf16 = bf16_bounds(g, x);
        for (const auto& kernel : kernels) {
          const ElementState y = kernel.second(p, g, x);
          bf16 narrow;
          reference::cast_to_bf16({}, Span<const float>(&y.master, 1), Span<bf16>(&narrow, 1));
          const bool legal =
              bound.master.ratio(y.master) <= 1 && in_bf16.master.ratio(to_float(narrow)) <= 1 &&
              bound.exp_avg.ratio(y.exp_avg) <= 1 && bound.exp_avg_sq.ratio(y.exp_avg_sq) <= 1 &&
              bound.momentum_buffer.ratio(y.momentum_buffer) <= 1;
          if (legal) continue;
          ++wrong;
          INFO(kernel.first, " g ", g, " master ", x.master, " exp_avg ", x.exp_avg, " exp_avg_sq ",
               x.exp_avg_sq, " gives ", y.master, " ", y.exp_avg, " ", " ", y.exp_avg_sq);
          CHECK(wrong == 0);
        }
        if (wrong > 0) return;
        ++all;
        by_class += bound.master.judged ? 0 : 1;
        not_judged += !bound.master.judged && bound.master.classes.all() ? 1 : 0;
      }
    }
    CAPTURE(static_cast<int>(rule));
    CHECK(by_class > all / 4);
    CHECK(100 * not_judged <= 2 * all);
    MESSAGE(static_cast<int>(rule)
            << ": " << by_class << " of " << all << " by class, " << not_judged << " not at all");
  }
}

TEST_CASE("bounds: classes of special numbers by hand") {
  OptimizerHyper h;
  h.lr = 1e-3;
  h.weight_decay = 0.1;
  const UpdateBounds bounds(h, 3);
  const auto must_be = [](const ElementBound& bound, ResultClasses classes) {
    CAPTURE(bound.classes.names());
    CHECK_FALSE(bound.judged);
    CHECK(bound.classes == classes);
  };
  using enum ResultClasses::Class;
  const ElementState x = {.master = 1, .exp_avg = 1, .exp_avg_sq = 1};
  // A NaN gradient or state has no other result in any order.
  for (const UpdateBound& lost : {bounds(NAN, x), bounds(NAN, {})}) {
    must_be(lost.master, nan);
    must_be(lost.exp_avg, nan);
    must_be(lost.exp_avg_sq, nan);
  }
  must_be(bounds(1, {.master = NAN}).master, nan);
  must_be(bounds(1, {.exp_avg_sq = NAN}).exp_avg_sq, nan);
  must_be(bounds(1, {.exp_avg_sq = NAN}).master, nan);
  must_be(bounds(1, {.exp_avg_sq = -1}).master, nan);  // a root
  // The step is inf / inf.
  must_be(bounds(INFINITY, x).exp_avg, infinity);
  must_be(bounds(-INFINITY, x).exp_avg, minus_infinity);
  must_be(bounds(-INFINITY, x).exp_avg_sq, infinity);
  must_be(bounds(INFINITY, x).master, nan);
  // m + o1 (g - m) is inf - inf.
  must_be(bounds(1, {.exp_avg = INFINITY}).exp_avg, infinity | nan);
  must_be(bounds(-INFINITY, {.exp_avg = INFINITY}).exp_avg, nan);
  // inf - inf in the contract's order, and inf in p (1 - lr wd).
  must_be(bounds(1, {.master = INFINITY}).master, infinity | nan);
  OptimizerHyper plain = h;
  plain.weight_decay = 0;
  must_be(UpdateBounds(plain, 3)(1, {.master = INFINITY}).master, infinity | nan);  // 0 * inf
  must_be(UpdateBounds(plain, 3)(1, {.master = -INFINITY}).master, minus_infinity | nan);
  // o2 (g g) overflows, (o2 g) g does not; neither does for the largest number.
  must_be(bounds(1e20F, x).exp_avg_sq, infinity | number);
  must_be(bounds(1e20F, x).master, number);
  must_be(bounds(FLT_MAX, x).exp_avg_sq, infinity);
  OptimizerHyper amsgrad = h;
  amsgrad.amsgrad = true;
  const UpdateBounds kept(amsgrad, 3);
  must_be(kept(NAN, {.max_exp_avg_sq = 1}).max_exp_avg_sq, nan);
  must_be(kept(INFINITY, {.max_exp_avg_sq = NAN}).max_exp_avg_sq, infinity);  // it is replaced
  CHECK(ResultClasses(nan | infinity | minus_infinity).names() == "NaN or inf or -inf");
  CHECK(ResultClasses(zero | minus_zero | number).names() == "0 or a finite number");
  CHECK(ResultClasses(minus_zero).names() == "-0");
  CHECK(ResultClasses().all());
}

TEST_CASE("bounds: underflow in a merged rate, and overflow before it") {
  OptimizerHyper h;
  h.weight_decay = 0;
  const Problem p = problem_of(h, 3);
  Draws draws(5);
  double worst = 0;
  for (int i = 0; i < 100000; ++i) {  // steps near the least normal number, denominators near 2^-60
    ElementState x;
    x.exp_avg = draws.number(-126, -120);
    x.exp_avg_sq = std::fabs(draws.number(-126, -60));
    const float g = draws.number(-126, -120);
    const UpdateBound bound = UpdateBounds(h, 3)(g, x);
    if (bound.master.judged) worst = std::max(worst, bound.master.ratio(merged(p, g, x).master));
  }
  CHECK(worst <= 1);
  CHECK(worst >= 0.1);
  // m / d overflows and the step does not: the contract's own order gives infinity.
  const ElementState steep = {.exp_avg = 0x1p110F, .exp_avg_sq = 0x1p-60F};
  CHECK(std::isinf(contract(p, 0, steep).master));
  CHECK_FALSE(UpdateBounds(h, 3)(0, steep).master.judged);
  h.weight_decay = 0.7;
  h.lr = 1.3125;  // the step and the decay are finite, and so is the result; their sum is not
  CHECK_FALSE(
      UpdateBounds(h, 3)(0, {.master = 0x1.8p126F, .exp_avg = 0x1p108F, .exp_avg_sq = 0x1p-40F})
          .master.judged);
}

TEST_CASE("slow: bounds: 10^8 elements of every legal order") {
  for (const auto& kernel : legal_kernels()) {
    const Worst worst = worst_of(kernel.second, UpdateRule::adamw, 1600000);
    const std::string& name = kernel.first;
    CAPTURE(name);
    CHECK(worst.judged >= 100000000);
    CHECK(worst.master <= 1);
    CHECK(worst.exp_avg <= 1);
    CHECK(worst.exp_avg_sq <= 1);
    MESSAGE(name << ": master " << worst.master << ", exp_avg " << worst.exp_avg << ", exp_avg_sq "
                 << worst.exp_avg_sq << " of their bounds");
  }
}

}  // namespace update_bounds_test
