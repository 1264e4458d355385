// Step scalars (R5) of both twins against the oracle: random settings of every rule, most of them valid, and
// every way to leave a range.

#include <doctest.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/parallel_for.hpp"
#include "common/base/philox.hpp"
#include "oracle.h"
#include "oracle_inputs.hpp"
#include "oracle_twins.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::oracle;

struct Settings {
  oracle_hyper hyper;
  std::int64_t t;
  int log2_loss_scale;
  std::int64_t divisor;
};

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

OptimizerHyper to_hyper(const oracle_hyper& h) {
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
  hyper.max_norm.reset();
  hyper.clip_value.reset();
  if (h.has_max_norm != 0) hyper.max_norm = h.max_norm;
  if (h.has_clip_value != 0) hyper.clip_value = h.clip_value;
  return hyper;
}

/// The twins that compute scalars: instruction sets play no part, so one of the host.
std::vector<Twin> scalar_twins() { return {reference_twin(), host_twin(Isa::best)}; }

bool agree(const Twin& twin, const Settings& c) {
  oracle_scalars expected{};
  const bool allowed = oracle_step_scalars(&c.hyper, c.t, c.log2_loss_scale, c.divisor, &expected) != 0;
  try {
    const StepScalars actual = twin.step_scalars(to_hyper(c.hyper), c.t, c.log2_loss_scale, c.divisor);
    return allowed && std::memcmp(&actual, &expected, sizeof actual) == 0;
  } catch (const Error& error) {
    return !allowed && error.code() == ErrorCode::invalid_argument;
  }
}

std::string describe(const Settings& c) {
  char text[512];
  const oracle_hyper& h = c.hyper;
  std::snprintf(
      text, sizeof text,
      "rule %d lr %a beta1 %a beta2 %a eps %a weight_decay %a bias_correction %d amsgrad %d momentum %a "
      "dampening %a nesterov %d max_norm %d %a clip_value %d %a t %lld log2_loss_scale %d divisor %lld",
      h.rule, h.lr, static_cast<double>(h.beta1), static_cast<double>(h.beta2), h.eps, h.weight_decay,
      h.bias_correction, h.amsgrad, h.momentum, h.dampening, h.nesterov, h.has_max_norm, h.max_norm,
      h.has_clip_value, h.clip_value, static_cast<long long>(c.t), c.log2_loss_scale,
      static_cast<long long>(c.divisor));
  return text;
}

/// Valid settings of any rule: magnitudes over many binades, betas over their whole ranges, options that fit.
Settings valid_settings(std::uint64_t index) {
  const Philox philox(19);
  std::uint64_t k = 0;
  const auto below = [&](std::uint64_t bound) { return philox.below(64 * index + 2 * k++, bound); };
  const auto uniform = [&] { return static_cast<double>(below(std::uint64_t{1} << 53)) * 0x1p-53; };
  const auto magnitude = [&](int low, int high) {
    const int exponent = low + static_cast<int>(below(static_cast<std::uint64_t>(high - low)));
    return std::ldexp(1 + uniform(), exponent);
  };
  Settings c{};
  oracle_hyper& h = c.hyper;
  h.rule = static_cast<int>(below(4));
  h.lr = below(8) == 0 ? 0 : below(8) == 0 ? magnitude(-1074, 1000) : magnitude(-30, 4);
  h.weight_decay = below(3) == 0 ? 0 : below(8) == 0 ? magnitude(-1074, 1000) : magnitude(-30, 4);
  h.eps = magnitude(-126, below(4) == 0 ? 1000 : 0);
  const auto beta = [&](double least) {  // 1 - beta from 2^-23 up, always at a float
    const auto value = static_cast<float>(1 - std::ldexp(1 + uniform(), -23 + static_cast<int>(below(22))));
    return value < static_cast<float>(least) ? static_cast<float>(least) : value;
  };
  h.beta1 = below(8) == 0 ? 0 : below(2) == 0 ? static_cast<float>(uniform() * 0.99) : beta(0);
  h.beta2 = beta(0.5);
  h.bias_correction = below(4) != 0 ? 1 : 0;
  h.maximize = static_cast<int>(below(2));
  if (h.rule < oracle_rule_sgd) h.amsgrad = static_cast<int>(below(2));
  if (h.rule == oracle_rule_sgd) {
    h.momentum = below(4) == 0 ? 0 : below(4) == 0 ? magnitude(-1074, -1) : uniform();
    h.dampening = below(2) == 0 ? 0 : below(8) == 0 ? 1 : uniform();
    h.nesterov = h.momentum > 0 && h.dampening == 0 && below(2) == 0 ? 1 : 0;
  }
  h.has_max_norm = static_cast<int>(below(2));
  h.max_norm = below(4) == 0 ? 0 : magnitude(-1074, 1023);
  h.has_clip_value = static_cast<int>(below(2));
  h.clip_value = magnitude(-149, 127);
  c.t = static_cast<std::int64_t>(1 + below(below(2) == 0 ? 4 : std::uint64_t{1} << below(63)));
  c.divisor = static_cast<std::int64_t>(1 + below((std::uint64_t{1} << below(53)) + 1) %
                                                ((std::uint64_t{1} << 53) - 1));
  const int bits = static_cast<int>(std::ceil(std::log2(static_cast<double>(c.divisor))));
  c.log2_loss_scale = -126 + static_cast<int>(below(static_cast<std::uint64_t>(253 - bits)));
  return c;
}

/// Leaves the ranges in one place or, now and then, in none that matters.
Settings damaged_settings(std::uint64_t index) {
  Settings c = valid_settings(index);
  oracle_hyper& h = c.hyper;
  const std::uint64_t word = Philox(20).word(index);
  const auto pick = [&](auto values) { return values.begin()[word / 16 % values.size()]; };
  using Doubles = std::initializer_list<double>;
  using Floats = std::initializer_list<float>;
  const Doubles not_numbers = {-1.0, inf, -inf, nan, -0.0, -5e-324};
  switch (word % 16) {
    case 0:
      h.lr = pick(not_numbers);
      break;
    case 1:
      h.weight_decay = pick(not_numbers);
      break;
    case 2:
      h.eps = pick(Doubles{0x1.fffffep-127, 0x1.fffffefp-127, 0x1.ffffffp-127, 0, -1, nan, inf, 1e39});
      break;
    case 3:
      h.beta1 = pick(Floats{1, 1 - 0x1p-24F, -0x1p-30F, 1 - 0x1p-23F, 2, from_bits(0x7FC00000), -0.0F});
      break;
    case 4:
      h.beta2 = pick(Floats{1, 1 - 0x1p-24F, 0.49999997F, 0.5F, 0, -1, from_bits(0xFF800000)});
      break;
    case 5:
      h.momentum = pick(Doubles{-5e-324, 1, 1 + 0x1p-52, nan, inf, -0.0, 5e-324});
      break;
    case 6:
      h.dampening = pick(Doubles{-5e-324, 1, 1 + 0x1p-52, nan, inf, -0.0, 5e-324});
      break;
    case 7:
      h.nesterov = 1;
      break;
    case 8:
      h.amsgrad = 1;
      break;
    case 9:
      h.has_max_norm = 1, h.max_norm = pick(not_numbers);
      break;
    case 10:
      h.has_clip_value = 1, h.clip_value = pick(Doubles{0, -0.0, -1, inf, nan, 0x1p-150, 0x1.000001p-150,
                                                        0x1.ffffffp127, 0x1.fffffefp127, 1e300});
      break;
    case 11:
      c.t = pick(std::initializer_list<std::int64_t>{0, -1, INT64_MIN, INT64_MAX});
      break;
    case 12:
      c.divisor = pick(std::initializer_list<std::int64_t>{
          0, -1, std::int64_t{1} << 53, (std::int64_t{1} << 53) - 1, INT64_MAX, INT64_MIN});
      break;
    case 13:
      c.log2_loss_scale =
          pick(std::initializer_list<int>{127, -127, 126, -126, 1100, -1100, INT32_MAX, INT32_MIN, 74, 73});
      break;
    case 14:
      h.rule = static_cast<int>(word / 16 % 4);
      break;  // whatever options the other rule had
    default:
      h.momentum = 0.9, h.nesterov = 1, h.dampening = pick(Doubles{0, 0.1});
      break;
  }
  return c;
}

void compare(const char* what, std::int64_t cases, Settings (*make)(std::uint64_t)) {
  const std::vector<Twin> twins = scalar_twins();
  std::atomic<std::int64_t> differ{0}, allowed{0};
  std::mutex mutex;
  std::string first;
  parallel_for(available_cores(), cases / 1000, [&](std::int64_t part) {
    for (std::int64_t i = 1000 * part; i < 1000 * (part + 1); ++i) {
      const Settings c = make(static_cast<std::uint64_t>(i));
      oracle_scalars unused{};
      allowed += oracle_step_scalars(&c.hyper, c.t, c.log2_loss_scale, c.divisor, &unused);
      for (const Twin& twin : twins) {
        if (agree(twin, c)) continue;
        const std::lock_guard lock(mutex);
        if (differ++ == 0) first = twin.name + ", case " + std::to_string(i) + ": " + describe(c);
      }
    }
  });
  std::printf("step scalars, %s: %lld cases (%lld allowed) x %zu implementations, %lld differ\n", what,
              static_cast<long long>(cases), static_cast<long long>(allowed.load()), twins.size(),
              static_cast<long long>(differ.load()));
  CHECK_MESSAGE(differ == 0, first);
}

/// The largest betas: the cancellation in 1 - pow(beta, t) brings the last bits of pow to light.
Settings cancelling_settings(std::uint64_t index) {
  const Philox philox(19, 1);
  Settings c{};
  c.hyper.beta1 = c.hyper.beta2 = 1 - 0x1p-23F * static_cast<float>(1 + philox.below(4 * index, 8));
  c.hyper.lr = static_cast<double>(philox.uniform(8 * index + 2));
  c.hyper.eps = 1e-8;
  c.hyper.bias_correction = 1;
  c.t = static_cast<std::int64_t>(1 + philox.below(4 * index + 2, 200));
  c.divisor = 1;
  return c;
}

}  // namespace

TEST_CASE("valid settings of every rule") { compare("valid", 1'200'000, valid_settings); }

TEST_CASE("betas next to 1") { compare("cancelling", 200'000, cancelling_settings); }

TEST_CASE("settings that leave a range are refused by both, and only those") {
  compare("damaged", 400'000, damaged_settings);
}

TEST_CASE("by hand: the words that are new in version 2") {
  OptimizerHyper hyper;
  hyper.rule = UpdateRule::sgd;
  hyper.lr = 0.5;
  hyper.weight_decay = 0.25;
  hyper.momentum = 0.75;
  hyper.dampening = 0.5;
  for (const Twin& twin : scalar_twins()) {
    CAPTURE(twin.name);
    StepScalars s = twin.step_scalars(hyper, 1, 3, 4);
    CHECK(s.inv_scale == 0x1p-5F);
    CHECK(s.lr == 0.5F);
    CHECK(s.weight_decay == 0.25F);
    CHECK(s.lr_weight_decay == 0.125F);
    CHECK(s.momentum == 0.75F);
    CHECK(s.one_minus_dampening == 0.5F);
    CHECK(s.has_decay == 1);
    CHECK(s.is_first == 1);
    CHECK(twin.step_scalars(hyper, 2, 3, 4).is_first == 0);
    // The decay coefficient is the rule's own: lr * weight_decay vanishes for adamw alone.
    hyper.momentum = hyper.dampening = 0;
    hyper.lr = 1e-200;
    hyper.weight_decay = 1e-200;
    for (UpdateRule rule : {UpdateRule::adamw, UpdateRule::adam, UpdateRule::sgd, UpdateRule::sgd_ema}) {
      hyper.rule = rule;
      CHECK(twin.step_scalars(hyper, 5, 0, 1).has_decay == (rule == UpdateRule::adamw ? 0U : 1U));
    }
    hyper = {};
    hyper.rule = UpdateRule::sgd;
    hyper.lr = 0.5;
    hyper.weight_decay = 0.25;
    hyper.momentum = 0.75;
    hyper.dampening = 0.5;
  }
}
