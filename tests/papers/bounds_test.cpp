// papers/bounds.md against 113-bit arithmetic: every legal order of operations is within the
// bounds, each bound is nearly reached, and wrong updates exceed it.
#include <doctest.h>

#include <algorithm>
#include <array>
#include <string>

#include "cases.hpp"
#include "orders.hpp"

using namespace zeroproof::papers;

namespace {

std::array<double, 5> ratios(const AdamBounds& b, const Computed& y) {
  return {b.grad.ratio(y.grad), b.exp_avg.ratio(y.exp_avg), b.exp_avg_sq.ratio(y.exp_avg_sq),
          b.denominator.ratio(y.denominator), b.master.ratio(y.master)};
}

std::array<double, 3> ratios(const SgdBounds& b, const SgdComputed& y) {
  return {b.grad.ratio(y.grad), b.buffer.ratio(y.buffer), b.master.ratio(y.master)};
}

/// A NaN counts as outside.
bool inside(double ratio) { return ratio <= 1; }

/// Elements of training with a fault: how many of `count` exceed a bound.
int outside(Fault fault, int count) {
  Cases cases(7);
  int found = 0;
  for (int i = 0; i < count; ++i) {
    Scalars s = cases.scalars();
    s.beta2 = 0.999F;
    s.one_minus_beta2 = static_cast<float>(1 - double{0.999F});
    s.sqrt_bias_correction2 = 0.5F;
    s.eps = 1e-8F;
    s.lr_weight_decay = 1e-3F;
    s.step_size = 1e-2F;
    s.inv_scale = s.clip_coef = 1;
    s.decay = true;
    s.l2 = false;
    const float g = cases.with_exponent(-30, -20);
    const Element x = {g, cases.with_exponent(-6, 0), g / 3, g * g / 64};
    const AdamBounds b = adam_bounds(s, x);
    REQUIRE(b.valid);
    const auto all = ratios(b, adam(s, x, 0, fault));
    if (!std::all_of(all.begin(), all.end(), inside)) ++found;
  }
  return found;
}

}  // namespace

TEST_CASE("bounds of Adam and AdamW: hold in every legal order and are nearly reached") {
  Cases cases(1);
  constexpr int count = 120000;
  int judged = 0;
  std::array<double, 5> largest{};
  for (int i = 0; i < count; ++i) {
    const Scalars s = cases.scalars();
    const Element x = cases.element(s);
    const AdamBounds b = adam_bounds(s, x);
    if (!b.valid) continue;
    ++judged;
    for (const unsigned freedom : {0U, static_cast<unsigned>(i) % 16U}) {
      const auto all = ratios(b, adam(s, x, freedom));
      for (std::size_t j = 0; j < all.size(); ++j) {
        if (!inside(all[j]))
          FAIL_CHECK("element ", i, " order ", freedom, " quantity ", j, ": ", all[j]);
        largest[j] = std::max(largest[j], all[j]);
      }
    }
  }
  CHECK(judged > count * 9 / 10);
  for (std::size_t j = 0; j < largest.size(); ++j) {
    CAPTURE(j);
    CHECK(largest[j] > 0.85);  // not vacuous
  }
}

TEST_CASE("bounds of SGD: hold and are nearly reached") {
  Cases cases(2);
  constexpr int count = 120000;
  int judged = 0;
  std::array<double, 3> largest{};
  for (int i = 0; i < count; ++i) {
    const Scalars s = cases.scalars();
    const Element x = cases.element(s);
    const SgdBounds b = sgd_bounds(s, x);
    if (!b.valid) continue;
    ++judged;
    const auto all = ratios(b, sgd(s, x));
    for (std::size_t j = 0; j < all.size(); ++j) {
      if (!inside(all[j])) FAIL_CHECK("element ", i, " quantity ", j, ": ", all[j]);
      largest[j] = std::max(largest[j], all[j]);
    }
  }
  CHECK(judged > count * 9 / 10);
  for (const double ratio : largest) CHECK(ratio > 0.85);
}

TEST_CASE("slow: bounds: largest ratios of 6,000,000 elements, as in papers/bounds.md") {
  constexpr int count = 6000000;
  const std::array<std::string, 4> rules = {"AdamW", "Adam (L2)", "SGD", "SGD (L2)"};
  std::array<std::array<double, 5>, 4> largest{};
  int judged = 0;
  const auto add = [&](std::size_t rule, const auto& all) {
    for (std::size_t j = 0; j < all.size(); ++j) {
      if (!(all[j] <= largest[rule][j])) largest[rule][j] = all[j];  // keeps a NaN
    }
  };
  Cases of_adam(1);
  for (int i = 0; i < count; ++i) {
    const Scalars s = of_adam.scalars();
    const Element x = of_adam.element(s);
    const AdamBounds b = adam_bounds(s, x);
    if (!b.valid) continue;
    ++judged;
    for (unsigned freedom = 0; freedom < 16; ++freedom) {
      add(s.l2 && s.decay ? 1U : 0U, ratios(b, adam(s, x, freedom)));
    }
  }
  MESSAGE("Adam: " << count - judged << " of " << count << " elements outside of [Bound:valid]");
  Cases of_sgd(2);
  for (int i = 0; i < count; ++i) {
    const Scalars s = of_sgd.scalars();
    const Element x = of_sgd.element(s);
    const SgdBounds b = sgd_bounds(s, x);
    if (b.valid) add(s.l2 && s.decay ? 3U : 2U, ratios(b, sgd(s, x)));
  }
  for (std::size_t rule = 0; rule < rules.size(); ++rule) {
    for (std::size_t j = 0; j < (rule < 2 ? 5U : 3U); ++j) {
      MESSAGE(rules[rule] << ", quantity " << j << ": " << largest[rule][j]);
      CHECK(largest[rule][j] <= 1);
      CHECK(largest[rule][j] > 0.96);
    }
  }
}

TEST_CASE("bounds: a NaN is outside of every bound") {
  CHECK(inside(Bounded{1, 1}.ratio(2)));
  CHECK_FALSE(inside(Bounded{1, 1}.ratio(2.5F)));
  CHECK_FALSE(inside(Bounded{1, 1}.ratio(NAN)));
}

TEST_CASE("bounds: wrong updates exceed the bounds") {
  CHECK(outside(Fault::none, 2000) == 0);
  CHECK(outside(Fault::eps_before_correction, 2000) > 1900);
  CHECK(outside(Fault::decay_after_update, 2000) > 1000);
  CHECK(outside(Fault::beta_unrounded, 2000) > 1900);
  CHECK(outside(Fault::decay_as_factor, 2000) > 20);  // legal only with [Bound:twice]
}
