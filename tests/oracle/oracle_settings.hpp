#pragma once
// Random settings for the step scalars (R5): valid ones of every rule, ones outside of a range, and
// ones whose results depend on the last bits of pow.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <limits>
#include <string>

#include "common/base/philox.hpp"
#include "common/contracts/step_scalars.hpp"
#include "oracle.h"
#include "oracle_inputs.hpp"

namespace zeroproof::oracle {

struct Settings {
  oracle_hyper hyper;
  std::int64_t t;
  int log2_loss_scale;
  std::int64_t divisor;
};

inline OptimizerHyper to_hyper(const oracle_hyper& h) {
  OptimizerHyper hyper;
  hyper.rule = static_cast<UpdateRule>(h.rule);
  hyper.lr = h.lr;
  hyper.beta1 = h.beta1;
  hyper.beta2 = h.beta2;
  hyper.eps = h.eps;
  hyper.weight_decay = h.weight_decay;
  hyper.bias_correction = h.bias_correction != 0;
  hyper.amsgrad = h.amsgrad != 0;
  hyper.maximize = h.maximize != 0;
  hyper.momentum = h.momentum;
  hyper.dampening = h.dampening;
  hyper.nesterov = h.nesterov != 0;
  if (h.heavy_ball != 0) hyper.muon.family = MomentumFamily::heavy_ball;
  hyper.max_norm.reset();
  hyper.clip_value.reset();
  if (h.has_max_norm != 0) hyper.max_norm = h.max_norm;
  if (h.has_clip_value != 0) hyper.clip_value = h.clip_value;
  return hyper;
}

/// Random numbers, a separate sequence for every index.
class Dice {
 public:
  explicit Dice(std::uint64_t index, std::uint32_t stream = 0) : index_(index), stream_(stream) {}

  std::uint64_t word() {
    if (next_ == 4) next_ = 0;
    if (next_ == 0)
      block_ = philox4x32({static_cast<std::uint32_t>(index_),
                           static_cast<std::uint32_t>(index_ >> 32), turn_++, stream_},
                          19);
    const std::uint64_t low = block_[next_++];
    return static_cast<std::uint64_t>(block_[next_++]) << 32 | low;
  }
  std::uint64_t below(std::uint64_t bound) { return word() % bound; }
  double uniform() { return static_cast<double>(word() >> 11) * 0x1p-53; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  /// 2^low to 2^high, every binade as likely as any other.
  double magnitude(int low, int high) {
    const int exponent = low + static_cast<int>(below(static_cast<std::uint64_t>(high - low)));
    return std::ldexp(1 + uniform(), exponent);
  }
  template <class T>
  T pick(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }

 private:
  std::uint64_t index_;
  std::uint32_t stream_, turn_ = 0;
  PhiloxBlock block_{};
  std::size_t next_ = 0;
};

/// 1 - beta from 2^-23 up, and beta at least `least`.
inline float random_beta(Dice& dice, float least) {
  const int exponent = -23 + static_cast<int>(dice.below(22));
  return std::max(least, static_cast<float>(1 - std::ldexp(1 + dice.uniform(), exponent)));
}

/// Valid settings of any rule: magnitudes over many binades, betas over their whole ranges,
/// compatible options.
inline Settings valid_settings(std::uint64_t index) {
  Dice dice(index);
  Settings c{};
  oracle_hyper& h = c.hyper;
  const auto rate = [&] {
    if (dice.one_in(6)) return 0.0;
    return dice.one_in(8) ? dice.magnitude(-1074, 1000) : dice.magnitude(-30, 4);
  };
  h.rule = static_cast<int>(dice.below(4));
  h.lr = rate();
  h.weight_decay = rate();
  h.eps = dice.magnitude(-126, dice.one_in(4) ? 1000 : 0);
  h.beta1 = dice.one_in(8) ? 0 : random_beta(dice, dice.one_in(2) ? 0 : 0.9F);
  h.beta2 = dice.one_in(8) ? 0 : random_beta(dice, dice.one_in(2) ? 0 : 0.9F);
  h.bias_correction = dice.one_in(4) ? 0 : 1;
  h.maximize = dice.one_in(2) ? 1 : 0;
  if (h.rule < oracle_rule_sgd) h.amsgrad = dice.one_in(2) ? 1 : 0;
  if (h.rule == oracle_rule_sgd) {
    h.momentum = dice.one_in(4) ? 0 : dice.one_in(4) ? dice.magnitude(-1074, -1) : dice.uniform();
    h.dampening = dice.one_in(2) ? 0 : dice.one_in(8) ? 1 : dice.uniform();
    h.nesterov = h.momentum > 0 && h.dampening == 0 && dice.one_in(2) ? 1 : 0;
  }
  h.has_max_norm = dice.one_in(2) ? 1 : 0;
  h.max_norm = dice.one_in(4) ? 0 : dice.magnitude(-1074, 1023);
  h.has_clip_value = dice.one_in(2) ? 1 : 0;
  h.clip_value = dice.magnitude(-149, 127);
  c.t = static_cast<std::int64_t>(1 + (dice.word() >> (1 + dice.below(63))));
  if (dice.one_in(2)) c.t = 1 + c.t % 4;
  if (c.t < 1) c.t = INT64_MAX;
  c.divisor = static_cast<std::int64_t>(1 + (dice.word() >> 11 >> dice.below(53)) %
                                                ((std::uint64_t{1} << 53) - 1));
  const int bits = static_cast<int>(std::ceil(std::log2(static_cast<double>(c.divisor))));
  c.log2_loss_scale = -126 + static_cast<int>(dice.below(static_cast<std::uint64_t>(253 - bits)));
  return c;
}

/// The same of the rule muon.
inline Settings valid_muon_settings(std::uint64_t index) {
  Settings c = valid_settings(index);
  oracle_hyper& h = c.hyper;
  Dice dice(index, 2);
  h.rule = oracle_rule_muon;
  h.amsgrad = 0;
  h.momentum = dice.one_in(4) ? 0 : dice.one_in(4) ? dice.magnitude(-1074, -1) : dice.uniform();
  h.dampening = 0;
  h.nesterov = h.momentum > 0 && dice.one_in(2) ? 1 : 0;
  h.heavy_ball = dice.one_in(2) ? 1 : 0;
  return c;
}

/// Valid settings with one value damaged, or set to the last value that is still allowed.
inline Settings damaged_settings(std::uint64_t index) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  using Int = std::int64_t;
  Settings c = valid_settings(index);
  oracle_hyper& h = c.hyper;
  Dice dice(index, 1);
  const auto not_a_size = [&] { return dice.pick({-1.0, inf, -inf, nan, -0.0, -5e-324}); };
  const auto not_a_share = [&] {
    return dice.pick({-5e-324, 1.0, 1 + 0x1p-52, nan, inf, -0.0, 5e-324});
  };
  switch (dice.below(15)) {
    case 0:
      h.lr = not_a_size();
      break;
    case 1:
      h.weight_decay = not_a_size();
      break;
    case 2:  // in fp32: just below 2^-126 is subnormal, half an ulp higher rounds up to it
      h.eps = dice.pick(
          {0x1.fffffep-127, 0x1.ffffffp-127, 0x1.fffffefp-127, 0.0, -1.0, nan, -inf, inf, 1e39});
      break;
    case 3:
      h.beta1 = dice.pick({1.0F, 1 - 0x1p-24F, -0x1p-30F, -0x1p-149F, 1 - 0x1p-23F, 2.0F,
                           from_bits(0x7FC00000), -0.0F});
      break;
    case 4:
      h.beta2 = dice.pick({1.0F, 1 - 0x1p-24F, -0x1p-30F, -0x1p-149F, 1 - 0x1p-23F, 0x1p-149F,
                           -1.0F, from_bits(0xFF800000), -0.0F});
      break;
    case 5:
      h.momentum = not_a_share();
      break;
    case 6:
      h.dampening = not_a_share();
      break;
    case 7:
      h.nesterov = 1;
      break;
    case 8:
      h.amsgrad = 1;
      break;
    case 9:
      h.has_max_norm = 1, h.max_norm = not_a_size();
      break;
    case 10:
      h.has_clip_value = 1;
      h.clip_value = dice.pick({0.0, -0.0, -1.0, inf, nan, 0x1p-150, 0x1.000001p-150,
                                0x1.ffffffp127, 0x1.fffffefp127, 1e300});
      break;
    case 11:
      c.t = dice.pick<Int>({0, -1, INT64_MIN, INT64_MAX});
      break;
    case 12:
      c.divisor = dice.pick<Int>({0, -1, Int{1} << 53, (Int{1} << 53) - 1, INT64_MAX, INT64_MIN});
      break;
    case 13:
      c.log2_loss_scale =
          dice.pick({127, -127, 126, -126, 1100, -1100, INT32_MAX, INT32_MIN, 74, 73});
      break;
    default:  // options of another rule
      h.rule = static_cast<int>(dice.below(4));
  }
  return c;
}

/// The largest betas: the cancellation in 1 - pow(beta, t) exposes the last bits of pow.
inline Settings cancelling_settings(std::uint64_t index) {
  Dice dice(index, 2);
  Settings c{};
  c.hyper.beta1 = c.hyper.beta2 = 1 - 0x1p-23F * static_cast<float>(1 + dice.below(8));
  c.hyper.lr = dice.uniform();
  c.hyper.eps = 1e-8;
  c.hyper.bias_correction = 1;
  c.t = static_cast<std::int64_t>(1 + dice.below(200));
  c.divisor = 1;
  return c;
}

inline std::string describe(const Settings& c) {
  char text[512];
  const oracle_hyper& h = c.hyper;
  std::snprintf(text, sizeof text,
                "rule %d lr %a beta1 %a beta2 %a eps %a weight_decay %a bias_correction %d amsgrad "
                "%d momentum %a "
                "dampening %a nesterov %d max_norm %d %a clip_value %d %a t %lld log2_loss_scale "
                "%d divisor %lld",
                h.rule, h.lr, static_cast<double>(h.beta1), static_cast<double>(h.beta2), h.eps,
                h.weight_decay, h.bias_correction, h.amsgrad, h.momentum, h.dampening, h.nesterov,
                h.has_max_norm, h.max_norm, h.has_clip_value, h.clip_value,
                static_cast<long long>(c.t), c.log2_loss_scale, static_cast<long long>(c.divisor));
  return text;
}

}  // namespace zeroproof::oracle
