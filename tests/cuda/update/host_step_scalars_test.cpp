// The step scalars of the host implementation by hand, and every range and option check of R5.

#include <doctest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>

#include "cuda/host/operations.hpp"
#include "tests/cuda/expect_error.hpp"

namespace host_step_scalars_test {

namespace {

using namespace zeroproof;
namespace host = zeroproof::cuda::host;

OptimizerHyper easy() {
  OptimizerHyper hyper;
  hyper.lr = 0.25;
  hyper.beta1 = 0.5F;
  hyper.beta2 = 0.75F;
  hyper.eps = 0x1p-20;
  hyper.weight_decay = 0.5;
  return hyper;
}

OptimizerHyper easy_sgd() {
  OptimizerHyper hyper = easy();
  hyper.rule = UpdateRule::sgd;
  hyper.momentum = 0.75;
  hyper.dampening = 0.25;
  return hyper;
}

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

void refused(const OptimizerHyper& base, const std::function<void(OptimizerHyper&)>& change) {
  CHECK_NOTHROW(host::step_scalars(base, 1, 0, 1));
  OptimizerHyper bad = base;
  change(bad);
  tests::expect_error(ErrorCode::invalid_argument, [&] { host::step_scalars(bad, 1, 0, 1); });
}

}  // namespace

TEST_CASE("step scalars: fifteen words by hand") {
  const StepScalars c = host::step_scalars(easy_sgd(), 1, 3, 4);
  CHECK(sizeof(c) == num_step_scalar_words * sizeof(float));
  CHECK(c.inv_scale == 0x1p-5F);
  CHECK(c.beta1 == 0.5F);
  CHECK(c.one_minus_beta1 == 0.5F);
  CHECK(c.beta2 == 0.75F);
  CHECK(c.one_minus_beta2 == 0.25F);
  CHECK(c.sqrt_bias_correction2 == 0.5F);  // sqrt(1 - 3/4)
  CHECK(c.step_size == 0.5F);              // (1/4) / (1/2)
  CHECK(c.eps == 0x1p-20F);
  CHECK(c.lr_weight_decay == 0.125F);
  CHECK(c.weight_decay == 0.5F);
  CHECK(c.lr == 0.25F);
  CHECK(c.momentum == 0.75F);
  CHECK(c.one_minus_dampening == 0.75F);
  CHECK(c.has_decay == 1);
  CHECK(c.is_first == 1);
  const StepScalars later = host::step_scalars(easy(), 3, -2, 3);
  CHECK(later.inv_scale == static_cast<float>(4.0 / 3.0));
  CHECK(later.step_size == static_cast<float>(0.25 / 0.875));                     // 1 - 1/8
  CHECK(later.sqrt_bias_correction2 == static_cast<float>(std::sqrt(0.578125)));  // 1 - 27/64
  CHECK(later.momentum == 0);
  CHECK(later.one_minus_dampening == 1);
  CHECK(later.is_first == 0);
  OptimizerHyper plain = easy();
  plain.bias_correction = false;
  CHECK(host::step_scalars(plain, 3, 0, 1).step_size == 0.25F);
  CHECK(host::step_scalars(plain, 3, 0, 1).sqrt_bias_correction2 == 1);
}

TEST_CASE("step scalars: any second beta from 0 up") {
  OptimizerHyper hyper = easy();
  hyper.beta2 = 0.25F;
  CHECK(host::step_scalars(hyper, 1, 0, 1).one_minus_beta2 == 0.75F);
  CHECK(host::step_scalars(hyper, 2, 0, 1).sqrt_bias_correction2 ==
        static_cast<float>(std::sqrt(0.9375)));
  hyper.beta2 = 0x1p-26F;  // 1 - 2^-26 is nearer to 1 than to 1 - 2^-24
  CHECK(host::step_scalars(hyper, 1, 0, 1).one_minus_beta2 == 1);
  hyper.beta2 = 0;
  CHECK(host::step_scalars(hyper, 5, 0, 1).sqrt_bias_correction2 == 1);
}

TEST_CASE("step scalars: has_decay is the coefficient of the rule in fp64") {
  for (const RuleTraits& rule : update_rules) {
    const bool decoupled = rule.rule == UpdateRule::adamw || rule.rule == UpdateRule::lion ||
                           rule.rule == UpdateRule::lamb || rule.rule == UpdateRule::muon;
    OptimizerHyper hyper = easy();
    hyper.rule = rule.rule;
    hyper.lr = 0;  // lr * weight_decay is 0, weight_decay is not
    CHECK(host::step_scalars(hyper, 1, 0, 1).has_decay == (decoupled ? 0 : 1));
    hyper.lr = 1e-200;
    hyper.weight_decay = 1e-100;  // zero in fp32 only
    CHECK(host::step_scalars(hyper, 1, 0, 1).has_decay == 1);
    CHECK(host::step_scalars(hyper, 1, 0, 1).weight_decay == 0);
    hyper.weight_decay = 1e-200;  // their product is zero in fp64
    CHECK(host::step_scalars(hyper, 1, 0, 1).has_decay == (decoupled ? 0 : 1));
    hyper.weight_decay = -0.0;
    CHECK(host::step_scalars(hyper, 1, 0, 1).has_decay == 0);
  }
}

TEST_CASE("step scalars: under muon the family defines the weight of the new gradient") {
  OptimizerHyper muon = easy();
  muon.rule = UpdateRule::muon;
  muon.momentum = 0.9375;
  muon.nesterov = true;
  const StepScalars ema = host::step_scalars(muon, 1, 0, 1);
  CHECK(ema.momentum == 0.9375F);
  CHECK(ema.one_minus_dampening == 0.0625F);
  CHECK(ema.has_decay == 1);
  CHECK(ema.step_size == 0.5F);  // of adamw
  muon.muon.family = MomentumFamily::heavy_ball;
  CHECK(host::step_scalars(muon, 1, 0, 1).one_minus_dampening == 1);
  muon.lr = 0;  // the coefficient is lr * weight_decay
  CHECK(host::step_scalars(muon, 1, 0, 1).has_decay == 0);
  refused(muon, [](OptimizerHyper& h) { h.dampening = 0.5; });
  refused(muon, [](OptimizerHyper& h) { h.momentum = 0; });
  refused(muon, [](OptimizerHyper& h) { h.amsgrad = true; });
}

TEST_CASE("step scalars: ranges") {
  for (const double bad : {-1.0, inf, not_a_number}) {
    refused(easy(), [=](OptimizerHyper& h) { h.lr = bad; });
    refused(easy(), [=](OptimizerHyper& h) { h.weight_decay = bad; });
    refused(easy(), [=](OptimizerHyper& h) { h.max_norm = bad; });
  }
  for (const double bad : {-0.125, 1.0000001, inf, not_a_number}) {
    refused(easy_sgd(), [=](OptimizerHyper& h) { h.momentum = bad; });
    refused(easy_sgd(), [=](OptimizerHyper& h) { h.dampening = bad; });
  }
  for (const double bad : {0.0, -0.0, -1.0, 0x1p-150, 0x1p128, inf, not_a_number}) {
    refused(easy(), [=](OptimizerHyper& h) { h.clip_value = bad; });
  }
  for (const double bad : {0.0, -1.0, 0x1p-127, not_a_number}) {
    refused(easy(), [=](OptimizerHyper& h) { h.eps = bad; });
  }
  refused(easy(), [](OptimizerHyper& h) { h.beta1 = 1.0F; });
  refused(easy(), [](OptimizerHyper& h) { h.beta1 = -0x1p-20F; });
  refused(easy(), [](OptimizerHyper& h) { h.beta1 = -0x1p-149F; });
  refused(easy(), [](OptimizerHyper& h) { h.beta2 = -0x1p-149F; });
  refused(easy(), [](OptimizerHyper& h) { h.beta2 = 1.0F; });
  // The ends of the ranges are inside.
  for (const double good : {0.0, 1.0}) {
    OptimizerHyper hyper = easy_sgd();
    hyper.momentum = hyper.dampening = good;
    CHECK_NOTHROW(host::step_scalars(hyper, 1, 0, 1));
  }
  OptimizerHyper hyper = easy();
  hyper.clip_value = 0x1p-149;
  CHECK_NOTHROW(host::step_scalars(hyper, 1, 0, (std::int64_t{1} << 53) - 1));
  const auto call = [&](std::int64_t t, int log2_scale, std::int64_t divisor) {
    tests::expect_error(ErrorCode::invalid_argument,
                        [&] { host::step_scalars(easy(), t, log2_scale, divisor); });
  };
  call(0, 0, 1);
  call(1, 0, 0);
  call(1, 0, -1);
  call(1, 0, std::int64_t{1} << 53);
  call(1, 127, 1);
  call(1, -127, 1);
  call(1, std::numeric_limits<int>::max(), 1);
}

TEST_CASE("step scalars: invalid combinations of options") {
  const auto change_rule = [](UpdateRule rule) {
    return [rule](OptimizerHyper& h) { h.rule = rule; };
  };
  OptimizerHyper momentum = easy_sgd(), dampening = easy_sgd(), nesterov = easy_sgd(),
                 amsgrad = easy();
  momentum.dampening = 0;
  dampening.momentum = 0;
  nesterov.dampening = 0;
  nesterov.nesterov = true;
  amsgrad.amsgrad = true;
  for (const UpdateRule rule : {UpdateRule::adamw, UpdateRule::adam, UpdateRule::sgd_ema,
                                UpdateRule::lion, UpdateRule::lamb}) {
    refused(momentum, change_rule(rule));
    refused(dampening, change_rule(rule));
    OptimizerHyper plain = easy();
    plain.rule = rule;
    refused(plain, [](OptimizerHyper& h) { h.nesterov = true; });
  }
  refused(nesterov, [](OptimizerHyper& h) { h.momentum = 0; });
  refused(nesterov, [](OptimizerHyper& h) { h.dampening = 0.5; });
  refused(amsgrad, change_rule(UpdateRule::sgd));
  refused(amsgrad, change_rule(UpdateRule::sgd_ema));
  refused(amsgrad, change_rule(UpdateRule::lion));
  refused(amsgrad, change_rule(UpdateRule::lamb));
  OptimizerHyper adam = amsgrad;
  adam.rule = UpdateRule::adam;
  CHECK_NOTHROW(host::step_scalars(adam, 1, 0, 1));
}

}  // namespace host_step_scalars_test
