// LAMB of the host implementation: by hand, and against the loops of simple_lamb.hpp.

#include <doctest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "cuda/host/fused_step.hpp"
#include "cuda/host/operations.hpp"
#include "tests/cuda/every_exec.hpp"
#include "tests/cuda/update/simple_lamb.hpp"
#include "tests/support/values.hpp"

namespace host_lamb_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
namespace host = zeroproof::cuda::host;

StepScalars scalars(bool decay) {
  OptimizerHyper hyper;
  hyper.rule = UpdateRule::lamb;
  hyper.lr = 0.05;
  hyper.weight_decay = decay ? 0.1 : 0;
  return host::step_scalars(hyper, 3, 2, 3);
}

struct State {
  std::vector<float> grad, master, exp_avg, exp_avg_sq;

  explicit State(std::int64_t numel)
      : grad(random_values(numel, 1)),
        master(random_values(numel, 2)),
        exp_avg(random_values(numel, 3)) {
    for (const float x : random_values(numel, 4)) exp_avg_sq.push_back(x * x);
    const auto put = [&](std::vector<float>& values, std::size_t at, float value) {
      if (at < values.size()) values[at] = value;
    };
    put(grad, 2, 0);
    put(exp_avg, 2, 0);  // u is the decay alone, or 0
    put(master, 3, -0.0F);
    put(master, 5, 0x1p-149F);
    put(master, 6, std::numeric_limits<float>::max());
    put(grad, 7, 0x1p-140F);
    put(exp_avg, 7, 0);
    put(exp_avg_sq, 7, 0);
  }
  void put_nonfinite() {
    grad.at(9) = nan32;
    grad.at(30) = -inf32;  // NaN: inf / inf
    master.at(12) = inf32;
    master.at(13) = nan32;
    exp_avg.at(14) = -inf32;
  }
};

TrustNorms simple_norms(const StepScalars& c, bool maximize, const State& state) {
  TrustNorms norms;
  for (std::size_t i = 0; i < state.grad.size(); ++i) {
    add_square(state.master[i], norms.weight);
    add_square(simple_lamb(c, maximize, state.grad[i], state.master[i], state.exp_avg[i],
                           state.exp_avg_sq[i])
                   .u,
               norms.update);
  }
  return norms;
}

TrustNorms normalised(TrustNorms norms) {
  host::grad_norm_normalise(norms.weight);
  host::grad_norm_normalise(norms.update);
  return norms;
}

void check(const Exec& exec, const State& state, bool decay, bool maximize) {
  const StepScalars c = scalars(decay);
  TrustNorms norms;
  const State before = state;
  host::lamb_norms(exec, {maximize}, c, state.grad, state.master, state.exp_avg, state.exp_avg_sq,
                   norms);
  CHECK(normalised(norms) == simple_norms(c, maximize, state));
  CHECK(bits(state.master) == bits(before.master));
  CHECK(bits(state.exp_avg) == bits(before.exp_avg));
  State after = state;
  constexpr float ratio = 0.7F;
  host::lamb_update(exec, {maximize}, c, ratio, after.grad, after.master, after.exp_avg,
                    after.exp_avg_sq);
  State want = state;
  for (std::size_t i = 0; i < want.grad.size(); ++i) {
    const SimpleLamb one =
        simple_lamb(c, maximize, want.grad[i], want.master[i], want.exp_avg[i], want.exp_avg_sq[i]);
    const float p = ratio * one.u;
    want.master[i] = want.master[i] - p;
    want.exp_avg[i] = one.exp_avg;
    want.exp_avg_sq[i] = one.exp_avg_sq;
  }
  CHECK(bits(after.master) == bits(want.master));
  CHECK(bits(after.exp_avg) == bits(want.exp_avg));
  CHECK(bits(after.exp_avg_sq) == bits(want.exp_avg_sq));
  CHECK(bits(after.grad) == bits(state.grad));
}

/// Norms with these values, as integers.
TrustNorms norms_of(const std::vector<float>& weights, const std::vector<float>& updates) {
  TrustNorms norms;
  for (const float x : weights) add_square(x, norms.weight);
  for (const float x : updates) add_square(x, norms.update);
  return norms;
}

}  // namespace

TEST_CASE("lamb: one step by hand") {
  StepScalars c{};
  c.beta1 = c.one_minus_beta1 = c.beta2 = c.one_minus_beta2 = 0.5F;
  c.sqrt_bias_correction2 = 1;
  c.step_size = 0.5F;
  c.eps = 1;
  c.lr_weight_decay = 0.25F;
  c.lr = 0.25F;
  c.has_decay = 1;
  for (const Exec& exec : every_exec()) {
    const std::vector<float> grad(4, 4.0F);
    std::vector<float> master(4, 4.0F), exp_avg(4, 2.0F), exp_avg_sq(4, 2.0F);
    TrustNorms norms;
    host::lamb_norms(exec, {}, c, grad, master, exp_avg, exp_avg_sq, norms);
    // m = 3; v = 9; q = 3 / 4; a = 3/8; w = 1; u = 11/8
    CHECK(host::grad_norm_finish(norms.weight) == 8);
    CHECK(host::grad_norm_finish(norms.update) == 2.75);
    CHECK(host::lamb_trust_ratio(c, norms) == static_cast<float>(2 / 2.75));
    host::lamb_update(exec, {}, c, 2.0F, grad, master, exp_avg, exp_avg_sq);
    CHECK(master == std::vector<float>(4, 1.25F));
    CHECK(exp_avg == std::vector<float>(4, 3.0F));
    CHECK(exp_avg_sq == std::vector<float>(4, 9.0F));
  }
}

TEST_CASE(
    "lamb: every instruction set and length equals simple loops, also with NaN and infinities") {
  for (const Exec& exec : every_exec()) {
    for (const std::int64_t numel :
         {0, 1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 65, 1023, 1024, 1025, 2 * 16384 + 37}) {
      CAPTURE(numel);
      State state(numel);
      for (const bool decay : {false, true}) {
        for (const bool maximize : {false, true}) check(exec, state, decay, maximize);
      }
      if (numel < 31) continue;
      state.put_nonfinite();
      check(exec, state, true, false);
      const TrustNorms norms = simple_norms(scalars(true), false, state);
      CHECK(norms.weight.nan_count == 1);
      CHECK(norms.weight.inf_count == 1);
      CHECK(norms.update.nan_count == 3);
      CHECK(norms.update.inf_count == 2);
    }
  }
}

TEST_CASE("lamb_norms: pieces that start anywhere add up to the norms of the tensor") {
  const State state(5000);
  const StepScalars c = scalars(true);
  for (const Exec& exec : every_exec()) {
    TrustNorms whole, pieces;
    host::lamb_norms(exec, {}, c, state.grad, state.master, state.exp_avg, state.exp_avg_sq, whole);
    for (std::size_t begin = 0, numel = 1; begin < 5000; begin += numel, numel = numel * 3 + 2) {
      const auto part = [&](const std::vector<float>& all) {
        return Span<const float>(all).subspan(begin, std::min(numel, 5000 - begin));
      };
      host::lamb_norms(exec, {}, c, part(state.grad), part(state.master), part(state.exp_avg),
                       part(state.exp_avg_sq), pieces);
    }
    CHECK(normalised(pieces) == normalised(whole));
    // They are added to what is there.
    const TrustNorms once = whole;
    host::lamb_norms(exec, {}, c, state.grad, state.master, state.exp_avg, state.exp_avg_sq, whole);
    CHECK(host::grad_norm_finish(whole.weight) > host::grad_norm_finish(once.weight));
  }
}

TEST_CASE("lamb_trust_ratio: zero norms, NaN, infinities, and the two roundings") {
  StepScalars c{};
  c.lr = 0.1F;
  CHECK(host::lamb_trust_ratio(c, {}) == 1);
  CHECK(host::lamb_trust_ratio(c, norms_of({3}, {})) == 1);
  CHECK(host::lamb_trust_ratio(c, norms_of({}, {3})) == 1);
  CHECK(host::lamb_trust_ratio(c, norms_of({0, -0.0F}, {nan32})) == 1);
  CHECK(host::lamb_trust_ratio(c, norms_of({inf32}, {})) == 1);
  CHECK(bits(host::lamb_trust_ratio(c, norms_of({nan32, 1}, {3}))) == bits(nan32));
  CHECK(bits(host::lamb_trust_ratio(c, norms_of({1}, {nan32, inf32}))) == bits(nan32));
  CHECK(bits(host::lamb_trust_ratio(c, norms_of({inf32}, {-inf32}))) == bits(nan32));
  CHECK(host::lamb_trust_ratio(c, norms_of({inf32}, {3})) == inf32);
  CHECK(bits(host::lamb_trust_ratio(c, norms_of({3}, {inf32}))) == 0);
  CHECK(host::lamb_trust_ratio(c, norms_of({3, 4}, {0x1p-149F})) == inf32);
  for (int i = 1; i < 200; ++i) {
    const float w = 0.37F * static_cast<float>(i);
    const float u = 1.0F / static_cast<float>(3 * i + 1);
    const double weight = std::fabs(static_cast<double>(w));
    CHECK(bits(host::lamb_trust_ratio(c, norms_of({w}, {u}))) ==
          bits(simple_ratio(c, weight, static_cast<double>(u))));
  }
  c.lr = 0;
  CHECK(bits(host::lamb_trust_ratio(c, norms_of({3}, {4}))) == 0);
}

TEST_CASE("lamb_update: with the ratio 1 it has the bits of adamw") {
  const State start(1100);
  const StepScalars c = scalars(true);
  for (const Exec& exec : every_exec()) {
    State lamb = start, adamw = start;
    host::lamb_update(exec, {}, c, 1.0F, lamb.grad, lamb.master, lamb.exp_avg, lamb.exp_avg_sq);
    host::adamw_update(exec, {}, c, adamw.grad, adamw.master, adamw.exp_avg, adamw.exp_avg_sq, {});
    CHECK(lamb.master == adamw.master);
    CHECK(lamb.exp_avg == adamw.exp_avg);
    CHECK(lamb.exp_avg_sq == adamw.exp_avg_sq);
  }
}

TEST_CASE("fused_lamb_norms: the norms of the phases, also of a gradient in a 16-bit type") {
  State state(16384 + 1024 + 37);
  constexpr float clip_coef = 0.3F;
  for (const bool maximize : {false, true}) {
    OptimizerHyper hyper;
    hyper.rule = UpdateRule::lamb;
    hyper.maximize = maximize;
    hyper.clip_value = 0.02;
    const StepScalars c = scalars(true);
    for (const Exec& exec : every_exec()) {
      std::vector<bf16> half(state.grad.size());
      host::cast_to_bf16(exec, state.grad, half);
      std::vector<float> wide(half.size());
      host::widen_bf16(exec, half, wide);
      std::vector<float> g(half.size());
      host::unscale(exec, c.inv_scale, wide, g);
      host::clip(exec, clip_coef, g, g);
      host::clip_value(exec, 0.02F, g);
      TrustNorms want, of_half, of_wide;
      host::lamb_norms(exec, {maximize}, c, g, state.master, state.exp_avg, state.exp_avg_sq, want);
      const host::FusedOptions options = host::fused_options(hyper);
      const host::FusedState views{state.master, state.exp_avg, state.exp_avg_sq};
      host::fused_lamb_norms(exec, options, c, clip_coef, {half.data(), DType::bf16}, views,
                             of_half);
      host::fused_lamb_norms(exec, options, c, clip_coef, {wide.data(), DType::fp32}, views,
                             of_wide);
      CHECK(normalised(of_half) == normalised(want));
      CHECK(normalised(of_wide) == normalised(want));
    }
  }
}

}  // namespace host_lamb_test
