// Random elements rarely round in the same direction ten times. This test searches significands,
// far from underflow, for the largest error in units of the bounds of papers/bounds.md, which shows
// how sharp each bound is.
#include <doctest.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "cases.hpp"
#include "orders.hpp"

using namespace zeroproof::papers;

namespace {

/// A search: one element, its scalars, and the significands that may change.
struct Search {
  Scalars s{};
  Element x{};
  std::vector<float*> free;

  Search() {
    s.inv_scale = 0x1p-4F;
    s.clip_coef = 0.5F;
    s.beta1 = 0.5F;
    s.one_minus_beta1 = 0x1p-3F;
    s.beta2 = 0.5F;
    s.one_minus_beta2 = 0x1p-10F;
    s.sqrt_bias_correction2 = 0.5F;
    s.step_size = 0x1p-7F;
    s.eps = 0x1p-26F;
    s.lr_weight_decay = 0x1p-3F;
    s.weight_decay = 0x1p-3F;
    s.lr = 0x1p-7F;
    s.momentum = 0.5F;
    s.one_minus_dampening = 0.5F;
    x = {0x1p-10F, 1, 0x1p-10F, 0x1p-20F};
    free = {&s.inv_scale,
            &s.clip_coef,
            &s.beta1,
            &s.one_minus_beta1,
            &s.beta2,
            &s.one_minus_beta2,
            &s.sqrt_bias_correction2,
            &s.step_size,
            &s.eps,
            &s.lr_weight_decay,
            &s.weight_decay,
            &s.lr,
            &s.momentum,
            &s.one_minus_dampening,
            &x.grad_sum,
            &x.master,
            &x.exp_avg,
            &x.exp_avg_sq};
  }
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;
};

/// Changes one significand at a time and keeps changes that do not lower the ratio much, later only
/// those that do not lower it at all. The exponents stay.
template <class Ratio>
double climb(Search& search, Ratio ratio) {
  Cases cases(11);
  const std::vector<float*>& free = search.free;
  std::vector<float> start;
  for (const float* value : free) start.push_back(*value);
  double best = 0;
  constexpr int num_steps = 8000;
  for (int restart = 0; restart < 8; ++restart) {
    // Significands near 1, where a rounding is largest in relative terms.
    for (std::size_t i = 0; i < free.size(); ++i) {
      *free[i] = start[i] * (1 + static_cast<float>(cases.uniform() * cases.uniform()) / 8);
    }
    double current = ratio(search);
    for (int step = 0; step < num_steps; ++step) {
      float& value = *free[cases.word() % free.size()];
      const float before = value;
      const auto mask = static_cast<std::uint32_t>(cases.word()) >> cases.between(11, 31);
      value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ mask);
      const double next = ratio(search);
      if (!(next <= 1)) FAIL_CHECK("outside of the bound: ", next);
      const double patience = 0.03 * (1 - 1.25 * step / num_steps);
      if (next >= current - std::max(patience, 0.0)) {
        current = next;
        best = std::max(best, next);
      } else {
        value = before;
      }
    }
  }
  return best;
}

double climb_adam(Search& search, Bounded AdamBounds::*bound, float Computed::*value) {
  return climb(search, [&](const Search& now) {
    const AdamBounds b = adam_bounds(now.s, now.x);
    return b.valid ? (b.*bound).ratio(adam(now.s, now.x, 0).*value) : 0;
  });
}

double climb_sgd(Search& search, Bounded SgdBounds::*bound, float SgdComputed::*value) {
  Scalars& s = search.s;
  Element& x = search.x;
  search.free = {&s.inv_scale, &s.clip_coef, &s.momentum, &s.one_minus_dampening,
                 &s.lr,        &x.grad_sum,  &x.master,   &x.exp_avg};
  return climb(search, [&](const Search& now) {
    const SgdBounds b = sgd_bounds(now.s, now.x);
    return b.valid ? (b.*bound).ratio(sgd(now.s, now.x).*value) : 0;
  });
}

}  // namespace

TEST_CASE("[Bound:g], [Bound:m], [Bound:v] need all of their roundings") {
  Search grad;
  CHECK(climb_adam(grad, &AdamBounds::grad, &Computed::grad) > 0.95);

  Search fresh;  // the gradient dominates, and a last bit of the old moment makes the sum round
  fresh.s.one_minus_beta1 = 0.5F;
  fresh.x.exp_avg = 0x1p-39F;
  CHECK(climb_adam(fresh, &AdamBounds::exp_avg, &Computed::exp_avg) > 0.92);

  Search old;
  old.x.exp_avg = 1;
  CHECK(climb_adam(old, &AdamBounds::exp_avg, &Computed::exp_avg) > 0.95);

  Search square;
  square.x.exp_avg_sq = 0x1p-63F;
  CHECK(climb_adam(square, &AdamBounds::exp_avg_sq, &Computed::exp_avg_sq) > 0.9);
}

TEST_CASE("[Bound:l2] needs all of its roundings") {
  Search grad;
  grad.s.decay = grad.s.l2 = true;
  grad.x.master = 0x1p-36F;
  CHECK(climb_adam(grad, &AdamBounds::grad, &Computed::grad) > 0.93);
  Search square;
  square.s.decay = square.s.l2 = true;
  square.x.master = 0x1p-36F;
  square.x.exp_avg_sq = 0x1p-63F;
  CHECK(climb_adam(square, &AdamBounds::exp_avg_sq, &Computed::exp_avg_sq) > 0.9);
}

TEST_CASE("[Bound:d]") {
  Search old;  // the stored second moment dominates
  old.x.exp_avg_sq = 1;
  old.x.grad_sum = 0.25F;
  old.s.eps = 0x1p-23F;
  CHECK(climb_adam(old, &AdamBounds::denominator, &Computed::denominator) > 0.65);
  Search fresh;
  fresh.x.exp_avg_sq = 0x1p-63F;
  fresh.s.eps = 0x1p-43F;
  CHECK(climb_adam(fresh, &AdamBounds::denominator, &Computed::denominator) > 0.82);
}

TEST_CASE("[Bound:p]") {
  Search step;  // large eps: the first moment dominates; a last bit of master makes it round
  step.s.eps = 1;
  step.s.one_minus_beta1 = 0.5F;
  step.x.exp_avg = 0x1p-39F;
  step.x.exp_avg_sq = 0x1p-63F;
  step.x.master = 0x1p-48F;
  CHECK(climb_adam(step, &AdamBounds::master, &Computed::master) > 0.83);
  Search decay;
  decay.s.decay = true;
  decay.s.lr_weight_decay = 8;
  decay.x.exp_avg = 0x1p-13F;
  decay.x.grad_sum = 0x1p-36F;
  decay.s.eps = 1;
  CHECK(climb_adam(decay, &AdamBounds::master, &Computed::master) > 0.87);
  Search adaptive;  // gradient errors partly cancel in the quotient; the bound ignores that
  adaptive.x.exp_avg = 0x1p-39F;
  adaptive.x.exp_avg_sq = 0x1p-63F;
  adaptive.x.master = 0x1p-30F;
  CHECK(climb_adam(adaptive, &AdamBounds::master, &Computed::master) > 0.55);
}

TEST_CASE("[Bound:sgd] and [Bound:nesterov] need all of their roundings") {
  Search step;
  step.x.exp_avg = 0x1p-39F;
  CHECK(climb_sgd(step, &SgdBounds::buffer, &SgdComputed::buffer) > 0.9);
  Search whole;  // the old buffer dominates, and every operation still rounds
  whole.x.exp_avg = 1;
  whole.x.grad_sum = 0x1p-19F;
  whole.x.master = 0x1p-32F;
  CHECK(climb_sgd(whole, &SgdBounds::master, &SgdComputed::master) > 0.8);
  Search ahead;
  ahead.s.nesterov = true;
  ahead.x.grad_sum = 0x1p-29F;
  ahead.x.master = 0x1p-43F;
  CHECK(climb_sgd(ahead, &SgdBounds::master, &SgdComputed::master) > 0.84);
}
