// GNU MPFR checks the exact values of bounds (64 bits) at 256 bits, and the fp32 operations of the
// oracle at 24 bits with the exponents of fp32.

#include <doctest.h>

#include <array>
#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "oracle_rules.hpp"
#include "reference/operations.hpp"
#include "tests/verification/mpfr/big.hpp"
#include "tests/verification/mpfr/rules.hpp"
#include "verification/compare/bounds/step_bounds.hpp"
#include "verification/compare/bounds/update_bounds.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

int elements = 100000;  // judged by every case; a million at night

class Draws {
 public:
  std::uint64_t word() { return random_(); }
  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(word() >> 11) * 0x1p-53;
  }
  float number(double low, double high) {
    const auto magnitude = static_cast<float>(std::exp2(uniform(low, high)));
    return word() % 2 == 0 ? magnitude : -magnitude;
  }

  OptimizerHyper hyper(UpdateRule rule) {
    OptimizerHyper h;
    h.rule = rule;
    h.lr = std::exp2(uniform(-14, 0));
    h.beta1 = static_cast<float>(std::array{0.9, 0.95, 0.5, 0.999}[word() % 4]);
    h.beta2 = static_cast<float>(std::array{0.999, 0.95, 0.75, 0.9999}[word() % 4]);
    h.eps = std::array{1e-8, 1e-6, 1e-3, 0.1}[word() % 4];
    h.weight_decay = std::array{0.0, 0.01, 0.1, 0.7}[word() % 4];
    h.amsgrad = traits_of(rule).amsgrad() && word() % 2 == 0;
    h.maximize = word() % 2 == 0;
    if (rule == UpdateRule::sgd && word() % 4 != 0) {
      h.momentum = 0.9;
      h.nesterov = word() % 2 == 0;
      h.dampening = h.nesterov ? 0 : 0.25;
    }
    return h;
  }

  /// Of lamb; 1 for other rules.
  float ratio(UpdateRule rule) {
    return traits_of(rule).trust_ratio ? std::fabs(number(-12, 12)) : 1;
  }

  ElementState element(float grad) {
    ElementState x;
    x.master = number(-12, 2);
    x.exp_avg = word() % 8 == 0 ? -grad / 9 : number(-30, 0);
    x.exp_avg_sq = std::fabs(number(-50, 0));
    x.max_exp_avg_sq = std::fabs(number(-50, 0));
    x.momentum_buffer = number(-30, 0);
    return x;
  }

 private:
  std::mt19937_64 random_{5};
};

template <class T>
Element<T> all_of(const ElementState& x) {
  return {T(x.master), T(x.exp_avg), T(x.exp_avg_sq), T(x.max_exp_avg_sq), T(x.momentum_buffer)};
}

/// The scalars of the settings: corrections and products in 256 bits.
Factors<Big> exact_factors(const OptimizerHyper& h, std::int64_t t) {
  const Big one = 1.0, beta1 = double{h.beta1}, beta2 = double{h.beta2},
            times = static_cast<double>(t);
  const Big root = h.bias_correction ? sqrt(one - pow(beta2, times)) : one;
  const Big step = h.bias_correction ? Big(h.lr) / (one - pow(beta1, times)) : Big(h.lr);
  return {beta1,
          one - beta1,
          beta2,
          one - beta2,
          root,
          step,
          h.eps,
          Big(h.lr) * Big(h.weight_decay),
          h.weight_decay,
          h.lr,
          h.momentum,
          one - Big(h.dampening),
          one};
}

Factors<Rounded> rounded_factors(const StepScalars& s) {
  return {s.beta1,
          s.one_minus_beta1,
          s.beta2,
          s.one_minus_beta2,
          s.sqrt_bias_correction2,
          s.step_size,
          s.eps,
          s.lr_weight_decay,
          s.weight_decay,
          s.lr,
          s.momentum,
          s.one_minus_dampening,
          1.0F};
}

/// The largest distance between an exact value in 64 bits and in 256, in units of its share of the
/// bound.
class Furthest {
 public:
  void add(const ElementBound& bound, const Big& truth) {
    if (!bound.judged || bound.allowed == 0) return;
    ++judged_;
    const Big off = abs(Big(bound.exact) - truth) / (Big(bound.allowed) * Big(0x1p-27));
    if (!(off <= Big(worst_))) worst_ = off.number();
  }
  void holds(const std::string& what) const {
    CAPTURE(what);
    CHECK(worst_ <= 1);
    CHECK(judged_ >= elements);
    MESSAGE(what << ": " << worst_ << " of 2^-27 of the bound, " << judged_ << " values");
  }
  std::int64_t judged() const { return judged_; }

 private:
  double worst_ = 0;
  std::int64_t judged_ = 0;
};

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

/// The oracle's step of one element.
ElementState oracle_step(const OptimizerHyper& h, const StepScalars& s, float ratio, float g,
                         ElementState x) {
  const Span<const float> grad(&g, 1);
  const auto one = [](float& value) { return Span<float>(&value, 1); };
  switch (h.rule) {
    case UpdateRule::muon:  // of a tensor that is no matrix (R28)
    case UpdateRule::adamw:
    case UpdateRule::adam:
      adam_by_oracle(h.rule != UpdateRule::adam, {h.amsgrad, h.maximize}, s, grad, one(x.master),
                     one(x.exp_avg), one(x.exp_avg_sq), one(x.max_exp_avg_sq));
      break;
    case UpdateRule::sgd:
      sgd_by_oracle({h.momentum != 0, h.nesterov, h.maximize}, s, grad, one(x.master),
                    one(x.momentum_buffer));
      break;
    case UpdateRule::sgd_ema:
      sgd_ema_by_oracle({h.maximize}, s, grad, one(x.master), one(x.exp_avg));
      break;
    case UpdateRule::lion:
      lion_by_oracle({h.maximize}, s, grad, one(x.master), one(x.exp_avg));
      break;
    case UpdateRule::lamb:
      lamb_by_oracle({h.maximize}, s, ratio, grad, one(x.master), one(x.exp_avg),
                     one(x.exp_avg_sq));
      break;
  }
  return x;
}

void check_update_bounds() {
  for (const RuleTraits& traits : update_rules) {
    const UpdateRule rule = traits.rule;
    Draws draws;
    Furthest furthest;
    while (furthest.judged() < elements) {
      const OptimizerHyper h = draws.hyper(rule);
      const std::int64_t t = std::array{1, 2, 3, 17, 1001}[draws.word() % 5];
      const float ratio = draws.ratio(rule);
      const UpdateBounds bounds(h, t, ratio);
      Factors<Big> factors = exact_factors(h, t);
      factors.ratio = double{ratio};
      for (int k = 0; k < 256; ++k) {
        const float g = draws.number(-28, 4);
        const ElementState x = draws.element(g);
        const UpdateBound bound = bounds(g, x);
        if (!bound.master.judged) continue;
        const Element<Big> truth =
            updated<Big>(h, factors, h.weight_decay * h.lr != 0, t == 1, double{g}, all_of<Big>(x));
        // Where the sign may be either, 64 bits need not determine it.
        if (rule != UpdateRule::lion || Big(bound.master.allowed) < Big(h.lr))
          furthest.add(bound.master, truth.master);
        furthest.add(bound.exp_avg, truth.exp_avg);
        furthest.add(bound.exp_avg_sq, truth.exp_avg_sq);
        furthest.add(bound.max_exp_avg_sq, truth.max_exp_avg_sq);
        furthest.add(bound.momentum_buffer, truth.momentum_buffer);
      }
    }
    furthest.holds("rule " + std::string(traits.name));
  }
}

void check_other_bounds() {
  Draws draws;
  Furthest product, coefficient, sum, norm;
  for (int i = 0; i < elements + elements / 8; ++i) {
    const float x = draws.number(-149, 127), factor = std::fabs(draws.number(-40, 20));
    product.add(product_bound(x, factor), Big(double{x}) * Big(double{factor}));
    const double n = std::exp2(draws.uniform(-30, 60)), limit = n * draws.uniform(0.1, 1);
    coefficient.add(clip_coef_bound(n, limit), Big(limit) / (Big(n) + Big(1e-6)));
    std::array<float, 13> leaves{};
    Big total;
    for (float& leaf : leaves) total = total + Big(double{leaf = draws.number(-60, 0)});
    sum.add(sum_bound(leaves), total);
  }
  product.holds("product");
  coefficient.holds("clip coefficient");
  sum.holds("sum");
}

void check_norms() {
  Draws draws;
  double furthest = 0;
  std::int64_t count = 0;
  for (const double p : {0.5, 1.0, 1.5, 2.0, 3.0, 7.25, 64.0, 2.7}) {
    for (int i = 0; i < elements / 3500; ++i) {
      std::vector<float> x(1 + draws.word() % 1001);
      for (float& one : x) one = draws.number(-40, 10);
      Big sum;
      for (const float one : x) sum = sum + pow(abs(Big(double{one})), Big(p));
      const Big truth = pow(sum, Big(1.0) / Big(p));
      const ElementBound bound = norm_bound(x, p);
      REQUIRE(bound.judged);
      const Big off = abs(Big(bound.exact) - truth) / (Big(bound.allowed) * Big(0x1p-27));
      if (!(off <= Big(furthest))) furthest = off.number();
      count += static_cast<std::int64_t>(x.size());
    }
  }
  CHECK(furthest <= 1);
  CHECK(count >= elements);
  MESSAGE("norms: " << furthest << " of 2^-27 of the bound; " << count << " elements");
}

void check_oracle_updates() {
  for (const RuleTraits& traits : update_rules) {
    const UpdateRule rule = traits.rule;
    CAPTURE(traits.name);
    Draws draws;
    int different = 0;
    for (int i = 0; i < elements / 250; ++i) {
      const OptimizerHyper h = draws.hyper(rule);
      const std::int64_t t = std::array{1, 2, 3, 17, 1001}[draws.word() % 5];
      const StepScalars s = reference::step_scalars(h, t, 0, 1);
      const float ratio = draws.ratio(rule);
      Factors<Rounded> factors = rounded_factors(s);
      factors.ratio = ratio;
      for (int k = 0; k < 250; ++k) {
        const bool low = draws.word() % 4 == 0;  // products and squares around the subnormal range
        const float g = low ? draws.number(-149, -60) : draws.number(-28, 4);
        ElementState x = draws.element(g);
        if (low) x.exp_avg_sq = std::fabs(draws.number(-149, -120));
        const ElementState got = oracle_step(h, s, ratio, g, x);
        const Element<Rounded> want =
            updated<Rounded>(h, factors, s.has_decay != 0, s.is_first != 0, g, all_of<Rounded>(x));
        const bool same = bits(got.master) == bits(want.master.number()) &&
                          bits(got.exp_avg) == bits(want.exp_avg.number()) &&
                          bits(got.exp_avg_sq) == bits(want.exp_avg_sq.number()) &&
                          bits(got.max_exp_avg_sq) == bits(want.max_exp_avg_sq.number()) &&
                          bits(got.momentum_buffer) == bits(want.momentum_buffer.number());
        different += same ? 0 : 1;
      }
    }
    CHECK(different == 0);
  }
}

}  // namespace

TEST_CASE("mpfr: exact values of update bounds agree to 2^-27 of the bound") {
  check_update_bounds();
}

TEST_CASE("mpfr: exact values of the other bounds of a step agree to 2^-27 of the bound") {
  check_other_bounds();
}

TEST_CASE("mpfr: norms in 64 bits agree to 2^-27 of the bound") { check_norms(); }

TEST_CASE("mpfr: the oracle's fp32 updates equal 24-bit operations, each rounded once") {
  check_oracle_updates();
}

TEST_CASE("nightly: mpfr: the same for a million elements") {
  elements = 1000000;
  check_update_bounds();
  check_other_bounds();
  check_norms();
  check_oracle_updates();
  elements = 100000;
}

TEST_CASE("mpfr: the oracle's sums, products and roots are rounded once") {
  Draws draws;
  int different = 0;
  for (int i = 0; i < elements; ++i) {
    const float a = draws.number(-149, 127),
                b = draws.word() % 2 == 0 ? draws.number(-149, 127) : a * draws.number(-25, 0);
    float sum = 0, product = 0;
    oracle_add(&a, &b, &sum, 1);
    oracle_unscale(b, &a, &product, 1);
    different += bits(sum) != bits((Rounded(a) + Rounded(b)).number()) ? 1 : 0;
    different += bits(product) != bits((Rounded(a) * Rounded(b)).number()) ? 1 : 0;
    const double root = std::sqrt(std::fabs(static_cast<double>(a)));
    different +=
        bits(static_cast<float>(root)) != bits(sqrt(Rounded(std::fabs(a))).number()) ? 1 : 0;
  }
  CHECK(different == 0);
}
