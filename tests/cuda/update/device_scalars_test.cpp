// Values that a device computes once per step: scalars, loss scaler, norm and clip coefficient, in
// numbers that can be checked by hand. Every setting is swept against the reference by `verify
// op/*/device/*`.

#include <doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "common/base/error.hpp"
#include "cuda/device/operations.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/cuda/optimizer/device_layouts.hpp"

namespace device_scalars_test {

namespace {

using namespace zeroproof;
using device_test::usable;
using tests::expect_error;
namespace device = zeroproof::cuda::device;

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr int limb_of_one = 11;  // 2^(32 * 11 - 352) = 1

NormLimbs limbs_of(std::uint64_t ones, std::uint64_t below = 0) {
  NormLimbs limbs;
  limbs.limbs[limb_of_one] = ones;
  limbs.limbs[limb_of_one - 1] = below;  // of 2^-32
  return limbs;
}

}  // namespace

TEST_CASE("device: scalars of the first steps") {
  if (!usable()) return;
  OptimizerHyper hyper;
  hyper.lr = 0.25;
  hyper.beta1 = 0.5F;
  hyper.beta2 = 0.75F;
  hyper.eps = 0.125;
  hyper.weight_decay = 0.5;
  const StepScalars first = device::step_scalars(hyper, 1, 4, 2);
  CHECK(first.inv_scale == 0x1p-5F);  // 1 / (2^4 * 2)
  CHECK(first.one_minus_beta1 == 0.5F);
  CHECK(first.one_minus_beta2 == 0.25F);
  CHECK(first.sqrt_bias_correction2 == 0.5F);  // sqrt(1 - 0.75)
  CHECK(first.step_size == 0.5F);              // 0.25 / (1 - 0.5)
  CHECK(first.lr_weight_decay == 0.125F);
  CHECK(first.eps == 0.125F);
  CHECK(first.has_decay == 1);
  CHECK(first.is_first == 1);

  const StepScalars third = device::step_scalars(hyper, 3, -3, 1);
  CHECK(third.inv_scale == 8.0F);
  CHECK(third.step_size == static_cast<float>(0.25 / 0.875));                     // 1 - 0.5^3
  CHECK(third.sqrt_bias_correction2 == static_cast<float>(std::sqrt(0.578125)));  // 1 - 27 / 64
  CHECK(third.is_first == 0);

  hyper.bias_correction = false;
  hyper.weight_decay = 0;
  const StepScalars plain = device::step_scalars(hyper, 3, 0, 1);
  CHECK(plain.step_size == 0.25F);
  CHECK(plain.sqrt_bias_correction2 == 1.0F);
  CHECK(plain.has_decay == 0);
}

TEST_CASE("device: the decay coefficient is the rule's") {
  if (!usable()) return;
  OptimizerHyper hyper;
  hyper.lr = 0;
  hyper.weight_decay = 0.5;
  CHECK(device::step_scalars(hyper, 1, 0, 1).has_decay == 0);  // adamw: lr * weight_decay
  hyper.rule = UpdateRule::adam;
  CHECK(device::step_scalars(hyper, 1, 0, 1).has_decay == 1);  // weight_decay
}

TEST_CASE("device: under muon the family defines the weight of the new gradient") {
  if (!usable()) return;
  OptimizerHyper hyper;
  hyper.rule = UpdateRule::muon;
  hyper.momentum = 0.9375;
  CHECK(device::step_scalars(hyper, 1, 0, 1).one_minus_dampening == 0.0625F);
  hyper.muon.family = MomentumFamily::heavy_ball;
  CHECK(device::step_scalars(hyper, 1, 0, 1).one_minus_dampening == 1);
}

TEST_CASE("device: steps and settings outside of R5") {
  if (!usable()) return;
  const OptimizerHyper hyper;
  const auto refuses = [&](std::int64_t t, int log2_loss_scale, std::int64_t divisor) {
    expect_error(ErrorCode::invalid_argument,
                 [&] { device::step_scalars(hyper, t, log2_loss_scale, divisor); });
  };
  refuses(0, 0, 1);
  refuses(1, 0, 0);
  refuses(1, 0, std::int64_t{1} << 53);
  refuses(1, 127, 1);
  refuses(1, 126, 2);
  refuses(1, -127, 1);
  refuses(1, -1100, 1);
  refuses(1, 5000, 1);
  CHECK(device::step_scalars(hyper, 1, 126, 1).inv_scale == 0x1p-126F);
  CHECK(device::step_scalars(hyper, 1, -127, 2).inv_scale == 0x1p126F);
  OptimizerHyper quarter = hyper;
  quarter.beta2 = 0.25F;
  CHECK(device::step_scalars(quarter, 1, 0, 1).one_minus_beta2 == 0.75F);
  OptimizerHyper bad = hyper;
  bad.beta2 = 1;
  expect_error(ErrorCode::invalid_argument, [&] { device::step_scalars(bad, 1, 0, 1); });
}

TEST_CASE(
    "device: the loss scaler grows, tolerates overflows by its hysteresis, shrinks and stops at "
    "its limits") {
  if (!usable()) return;
  LossScalerConfig config;
  config.kind = LossScalerKind::dynamic;
  config.log2_initial = 3;
  config.log2_backoff = 2;
  config.log2_min = 2;
  config.log2_max = 4;
  config.growth_interval = 2;
  config.hysteresis = 2;
  LossScalerState state{3, 0, 2};
  const std::vector<std::pair<bool, LossScalerState>> steps = {
      {false, {3, 1, 2}}, {false, {4, 0, 2}},  // two good steps: twice the scale
      {false, {4, 1, 2}}, {false, {4, 0, 2}},  // 2^5 would be above the limit
      {true, {4, 0, 1}},                       // tolerated
      {false, {4, 1, 1}}, {true, {2, 0, 0}},   // not tolerated
      {true, {2, 0, 0}},                       // 2^0 would be below the limit
      {false, {2, 1, 0}}, {false, {3, 0, 2}},  // growth restores the hysteresis
  };
  for (const auto& [found_inf, expected] : steps) {
    state = device::loss_scaler_update(config, state, found_inf);
    CHECK(state == expected);
  }
  config.refill = HysteresisRefill::good_step;
  CHECK(device::loss_scaler_update(config, {3, 0, 0}, false) == LossScalerState{3, 1, 2});
  config.kind = LossScalerKind::constant;
  CHECK(device::loss_scaler_update(config, {3, 0, 0}, true) == LossScalerState{3, 0, 0});
  expect_error(ErrorCode::invalid_argument, [&] {
    device::loss_scaler_update(config, {3, -1, 0}, true);
  });
}

TEST_CASE("device: limbs become a norm, rounded once") {
  if (!usable()) return;
  CHECK(device::grad_norm_finish(NormLimbs{}) == 0);
  CHECK(device::grad_norm_finish(limbs_of(25)) == 5);
  CHECK(device::grad_abs_finish(limbs_of(25)) == 25);
  NormLimbs smallest;
  smallest.limbs[0] = 1;
  CHECK(device::grad_abs_finish(smallest) == 0x1p-352);
  NormLimbs largest;
  largest.limbs[20] = std::uint64_t{1} << 63;  // the last limb has no upper end
  CHECK(device::grad_abs_finish(largest) == 0x1p351);

  // 2^53 + 1 is between two numbers of fp64.
  constexpr std::uint64_t odd = (std::uint64_t{1} << 53) + 1;
  NormLimbs tie;
  tie.limbs[limb_of_one] = odd & 0xFFFFFFFFU;
  tie.limbs[limb_of_one + 1] = odd >> 32;
  CHECK(device::grad_abs_finish(tie) == 0x1p53);  // to the even one
  NormLimbs above = tie;
  above.limbs[0] = 1;
  CHECK(device::grad_abs_finish(above) == 0x1p53 + 2);
  NormLimbs carried = limbs_of(odd);  // the same, not normalised
  CHECK(device::grad_abs_finish(carried) == 0x1p53);
  NormLimbs up = limbs_of(odd + 2);
  CHECK(device::grad_abs_finish(up) == 0x1p53 + 4);  // to the even one
  device::grad_norm_normalise(carried);
  CHECK(carried == tie);

  carried.inf_count = 1;
  CHECK(device::grad_norm_finish(carried) == inf);
  carried.nan_count = 1;
  CHECK(std::isnan(device::grad_norm_finish(carried)));
}

TEST_CASE("device: the largest magnitude as a norm") {
  if (!usable()) return;
  CHECK(device::grad_max_finish(std::bit_cast<std::uint32_t>(1.5F)) == 1.5);
  CHECK(device::grad_max_finish(1) == 0x1p-149);
  CHECK(device::grad_max_finish(0x7F800000U) == inf);
  CHECK(std::isnan(device::grad_max_finish(0x7FFFFFFFU)));
  CHECK(std::isnan(device::grad_max_finish(0x80000001U)));
}

TEST_CASE("device: the clip coefficient") {
  if (!usable()) return;
  CHECK(device::clip_coef(3, std::nullopt) == 1.0F);
  CHECK(device::clip_coef(std::nan(""), 0.0) == 1.0F);
  CHECK(device::clip_coef(4, 1.0) == static_cast<float>(1.0 / (4 + 1e-6)));
  CHECK(device::clip_coef(1, 1.0) == static_cast<float>(1.0 / (1 + 1e-6)));
  CHECK(device::clip_coef(0.5, 1.0) == 1.0F);
  CHECK(device::clip_coef(inf, 1.0) == 0.0F);
  CHECK(std::isnan(device::clip_coef(std::nan(""), 1.0)));
  for (const double bad : {-1.0, inf, std::nan("")})
    expect_error(ErrorCode::invalid_argument, [&] { device::clip_coef(1, bad); });
}

}  // namespace device_scalars_test
