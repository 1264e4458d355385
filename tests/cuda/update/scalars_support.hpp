#pragma once
// Values that are computed once per step against the reference: scalars, loss scaler, norm and clip
// coefficient, for the implementations of the host and those of the device.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "common/base/philox.hpp"
#include "reference/operations.hpp"
#include "tests/cuda/expect_error.hpp"

namespace zeroproof::tests {

struct ScalarImplementations {
  StepScalarsFn* step_scalars;
  LossScalerUpdateFn* loss_scaler_update;
  GradNormNormaliseFn* grad_norm_normalise;
  GradNormFinishFn *grad_norm_finish, *grad_abs_finish;
  GradMaxFinishFn* grad_max_finish;
  ClipCoefFn* clip_coef;
};

/// The words of the scalars; none if the settings are refused.
inline std::optional<std::vector<std::uint32_t>> words_of_scalars(StepScalarsFn* implementation,
                                                                  const OptimizerHyper& hyper,
                                                                  std::int64_t t, int log2_scale,
                                                                  std::int64_t divisor) {
  try {
    const StepScalars scalars = implementation(hyper, t, log2_scale, divisor);
    std::vector<std::uint32_t> words(num_step_scalar_words);
    std::memcpy(words.data(), &scalars, sizeof scalars);
    return words;
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    return std::nullopt;
  }
}

/// Every rule with every combination of options, valid or not, and with values at the ends of the
/// ranges and beyond.
inline void check_step_scalars(StepScalarsFn* implementation) {
  int valid = 0, refused = 0;
  const auto check = [&](const OptimizerHyper& hyper, std::int64_t t, int log2_scale,
                         std::int64_t divisor) {
    const auto want = words_of_scalars(reference::step_scalars, hyper, t, log2_scale, divisor);
    CHECK(words_of_scalars(implementation, hyper, t, log2_scale, divisor) == want);
    (want ? valid : refused) += 1;
  };
  constexpr double inf = std::numeric_limits<double>::infinity();
  const double nan = std::nan("");
  for (const RuleTraits& rule : update_rules) {
    CAPTURE(static_cast<int>(rule.rule));
    for (int bits = 0; bits < 64; ++bits) {
      const auto has = [&](int bit) { return (bits >> bit & 1) != 0; };
      OptimizerHyper hyper;
      hyper.rule = rule.rule;
      hyper.momentum = has(0) ? 0.9375 : 0;
      hyper.dampening = has(1) ? 0.25 : 0;
      hyper.nesterov = has(2);
      hyper.amsgrad = has(3);
      hyper.bias_correction = has(4);
      if (has(5)) hyper.muon.family = MomentumFamily::heavy_ball;
      check(hyper, 1, 3, 4);
      check(hyper, 3, -2, 3);
    }
    OptimizerHyper plain;
    plain.rule = rule.rule;
    for (const double lr : {0.0, 1e-200, 0.25}) {  // decay of 0 in fp64, or in fp32 only
      for (const double weight_decay : {-0.0, 1e-200, 1e-100, 0.5}) {
        plain.lr = lr;
        plain.weight_decay = weight_decay;
        check(plain, 2, 0, 1);
      }
    }
    const auto with = [&](const std::function<void(OptimizerHyper&, double)>& change) {
      for (const double value :
           {-1.0, -0.125, -0x1p-149, -0.0, 0.0, 0x1p-150, 0x1p-149, 0x1p-127, 0x1p-126, 0x1p-26,
            0.25, 1 - 0x1p-24, 1.0, 1.0000001, 0x1p128, inf, -inf, nan}) {
        CAPTURE(value);
        OptimizerHyper hyper;
        hyper.rule = rule.rule;
        if (rule.momentum()) hyper.momentum = 0.75;
        change(hyper, value);
        check(hyper, 3, 0, 1);
      }
    };
    with([](OptimizerHyper& h, double x) { h.lr = x; });
    with([](OptimizerHyper& h, double x) { h.weight_decay = x; });
    with([](OptimizerHyper& h, double x) { h.max_norm = x; });
    with([](OptimizerHyper& h, double x) { h.clip_value = x; });
    with([](OptimizerHyper& h, double x) { h.eps = x; });
    with([](OptimizerHyper& h, double x) { h.momentum = x; });
    with([](OptimizerHyper& h, double x) { h.dampening = x; });
    with([](OptimizerHyper& h, double x) { h.beta1 = static_cast<float>(x); });
    with([](OptimizerHyper& h, double x) { h.beta2 = static_cast<float>(x); });
  }
  constexpr std::int64_t past = std::int64_t{1} << 53;
  for (const std::int64_t t : {std::int64_t{0}, std::int64_t{1}, past}) {
    for (const int log2_scale :
         {-1100, -127, -126, 0, 125, 126, 127, std::numeric_limits<int>::max()}) {
      for (const std::int64_t divisor :
           {std::int64_t{-1}, std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, past - 1, past}) {
        check({}, t, log2_scale, divisor);
      }
    }
  }
  // At some of these t a root in fp32 differs, and so does a library's power for betas near 1.
  for (std::int64_t t = 1; t <= 100; ++t) check({}, t, 0, 1);
  OptimizerHyper near_one;
  near_one.beta1 = near_one.beta2 = 1 - 0x1p-23F;
  for (const std::int64_t t : {6666, 7109, 43946, 57248}) check(near_one, t, 0, 1);
  CHECK(valid > 500);
  CHECK(refused > 500);
}

/// Thirty steps with overflows at random, from several settings; exponents of which a distance has
/// more than 32 bits, and trackers around the interval.
inline void check_loss_scaler(LossScalerUpdateFn* implementation) {
  LossScalerConfig distant;
  distant.kind = LossScalerKind::dynamic;
  distant.log2_min = std::numeric_limits<int>::min();
  distant.log2_max = std::numeric_limits<int>::max();
  distant.growth_interval = 3;
  for (const int log2_scale :
       {distant.log2_min, distant.log2_min + 1, -2, 0, distant.log2_max - 1, distant.log2_max}) {
    for (const int tracker : {1, 2, 3, 4}) {
      const LossScalerState state{log2_scale, tracker, 1};
      for (const bool found_inf : {false, true}) {
        CHECK(implementation(distant, state, found_inf) ==
              reference::loss_scaler_update(distant, state, found_inf));
      }
    }
  }
  for (std::uint64_t seed = 0; seed < 64; ++seed) {
    CAPTURE(seed);
    LossScalerConfig config;
    config.kind = seed % 8 == 7 ? LossScalerKind::constant : LossScalerKind::dynamic;
    config.refill = seed % 2 == 0 ? HysteresisRefill::growth : HysteresisRefill::good_step;
    config.log2_initial = 3;
    config.log2_growth = seed % 3 == 0 ? 2 : 1;
    config.log2_backoff = seed % 5 == 0 ? 1 : 2;
    config.log2_min = 2;
    config.log2_max = 6;
    config.growth_interval = 1 + static_cast<int>(seed % 4);
    config.hysteresis = 1 + static_cast<int>(seed / 4 % 3);
    const Philox philox(seed);
    LossScalerState state{3, 0, config.hysteresis};
    for (std::uint64_t step = 0; step < 30; ++step) {
      const bool found_inf = philox.word(step) % 3 == 0;
      const LossScalerState want = reference::loss_scaler_update(config, state, found_inf);
      CHECK(implementation(config, state, found_inf) == want);
      state = want;
    }
    if (config.kind == LossScalerKind::dynamic) {
      expect_error(ErrorCode::invalid_argument, [&] { implementation(config, {3, -1, 0}, true); });
    }
  }
}

/// Limbs of one bit, of many, and around ties, also before carries and with values that are not finite.
inline void check_finished_norms(const ScalarImplementations& f) {
  const auto same = [](double a, double b) {
    return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) ||
           (std::isnan(a) && std::isnan(b));
  };
  for (std::uint64_t index = 0; index < 4000; ++index) {
    CAPTURE(index);
    const Philox philox(index);
    NormLimbs limbs;
    const std::size_t first = philox.below(0, limbs.limbs.size());
    const std::size_t last = std::min(first + philox.below(1, 4), limbs.limbs.size() - 1);
    for (std::size_t i = first; i <= last; ++i) {
      constexpr std::uint64_t words[] = {0, 1, 0x80000000, 0x001FFFFF, 0x00200000, 0xFFFFFFFF};
      limbs.limbs[i] = index % 2 == 0 ? words[philox.below(2 + i, std::size(words))]
                                      : std::uint64_t{philox.word(100 + i)} * philox.word(200 + i);
    }
    if (index % 16 == 0) limbs.limbs[0] += 1;
    limbs.inf_count = index % 50 == 7 ? 2 : 0;
    limbs.nan_count = index % 70 == 9 ? 1 : 0;
    CHECK(same(f.grad_norm_finish(limbs), reference::grad_norm_finish(limbs)));
    CHECK(same(f.grad_abs_finish(limbs), reference::grad_abs_finish(limbs)));
    NormLimbs want = limbs;
    f.grad_norm_normalise(limbs);
    reference::grad_norm_normalise(want);
    CHECK(limbs == want);
  }
  for (const std::uint32_t amax : {0U, 1U, 0x3FC00000U, 0x7F7FFFFFU, 0x7F800000U, 0x7F800001U,
                                   0x7FFFFFFFU, 0x80000001U, 0xFFFFFFFFU})
    CHECK(same(f.grad_max_finish(amax), reference::grad_max_finish(amax)));
  constexpr double inf = std::numeric_limits<double>::infinity();
  for (const double norm : {0.0, 0.5, 1.0, 1.0 - 1e-6, 3.0, 1e300, inf, std::nan("")}) {
    CHECK(f.clip_coef(norm, std::nullopt) == 1.0F);
    for (const double max_norm : {0.0, 0.3, 1.0, 1e300})
      CHECK(same(f.clip_coef(norm, max_norm), reference::clip_coef(norm, max_norm)));
  }
  for (const double bad : {-1.0, inf, std::nan("")})
    expect_error(ErrorCode::invalid_argument, [&] { f.clip_coef(1, bad); });
}

}  // namespace zeroproof::tests
