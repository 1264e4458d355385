// papers/bounds.md against 113-bit arithmetic: no legal order of operations leaves a bound, each bound is nearly
// reached, and wrong updates leave it.
#include <doctest.h>

#include <algorithm>
#include <array>

#include "cases.hpp"

using namespace zeroproof::papers;

namespace {

struct Computed {
  float grad, exp_avg, exp_avg_sq, denominator, master;
};

/// Orders of operations that [Bound:p] allows, in any combination.
enum Freedom : unsigned { contracted = 1, scale_before_divide = 2, square_last = 4, merged_factor = 8 };

/// Faults of the kinds that tolerances of 1e-3 do not see.
enum class Fault { none, eps_before_correction, decay_after_update, beta_unrounded, decay_as_factor };

float gradient(const Scalars& s, const Element& x, unsigned freedom) {
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
float multiply_add(float a, float b, float c, unsigned freedom) {
  if ((freedom & contracted) != 0) return std::fmaf(a, b, c);
  const float product = a * b;
  return product + c;
}

Computed adam(const Scalars& s, const Element& x, unsigned freedom, Fault fault = Fault::none) {
  Computed y{};
  const float g = gradient(s, x, freedom);
  const float o2 = fault == Fault::beta_unrounded ? static_cast<float>(1 - 0.999) : s.one_minus_beta2;
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
  if (fault == Fault::eps_before_correction) y.denominator = (root + s.eps) / s.sqrt_bias_correction2;
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

std::array<double, 5> ratios(const AdamBounds& b, const Computed& y) {
  return {b.grad.ratio(y.grad), b.exp_avg.ratio(y.exp_avg), b.exp_avg_sq.ratio(y.exp_avg_sq),
          b.denominator.ratio(y.denominator), b.master.ratio(y.master)};
}

/// Written so that a NaN counts.
bool inside(double ratio) { return ratio <= 1; }

/// Elements of training with a fault: how many of `count` leave a bound.
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

TEST_CASE("bounds of Adam and AdamW hold in every legal order and are nearly reached") {
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
        if (!inside(all[j])) FAIL_CHECK("element ", i, " order ", freedom, " quantity ", j, ": ", all[j]);
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

TEST_CASE("bounds of SGD hold and are nearly reached") {
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
    const float g = gradient(s, x, 0);
    const float kept = s.momentum * x.exp_avg;
    const float added = s.one_minus_dampening * g;
    const float buffer = kept + added;
    const float ahead = s.momentum * buffer;
    const float e = s.nesterov ? g + ahead : buffer;
    const float step = s.lr * e;
    const float master = x.master - step;
    const std::array<double, 3> all = {b.grad.ratio(g), b.buffer.ratio(buffer), b.master.ratio(master)};
    for (std::size_t j = 0; j < all.size(); ++j) {
      if (!inside(all[j])) FAIL_CHECK("element ", i, " quantity ", j, ": ", all[j]);
      largest[j] = std::max(largest[j], all[j]);
    }
  }
  CHECK(judged > count * 9 / 10);
  for (const double ratio : largest) CHECK(ratio > 0.85);
}

TEST_CASE("wrong updates leave the bounds") {
  CHECK(outside(Fault::none, 2000) == 0);
  CHECK(outside(Fault::eps_before_correction, 2000) > 1900);
  CHECK(outside(Fault::decay_after_update, 2000) > 1000);
  CHECK(outside(Fault::beta_unrounded, 2000) > 1900);
  CHECK(outside(Fault::decay_as_factor, 2000) > 20);  // legal only with [Bound:twice]
}
