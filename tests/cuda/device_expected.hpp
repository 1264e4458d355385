#pragma once
// Expected results of the element-wise device twins, from the contract: plain loops, with volatile
// temporaries so that no compiler joins two operations, and library functions instead of bit tricks.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "common/base/philox.hpp"
#include "common/contracts/adam.hpp"
#include "common/contracts/cast.hpp"
#include "common/contracts/sgd.hpp"
#include "tests/cuda/device_place.hpp"

namespace zeroproof::device_test {

inline float expected_sum(float left, float right) {
  volatile float sum = left + right;
  return sum;
}

inline float expected_product(float x, float factor) {
  volatile float product = x * factor;
  return product;
}

inline float expected_clip_value(float x, float limit) {
  if (std::isnan(x) || std::fabs(x) <= limit) return x;
  return std::copysign(limit, x);
}

/// Counts units of the last place near the value and rounds the count to the nearest even integer.
template <class Format>
Format expected_narrow(float value) {
  using F = FormatOf<Format>;
  using Bits = decltype(Format::bits);
  const int sign = std::signbit(value) ? 1 << (F::num_bits - 1) : 0;
  if (std::isnan(value)) return {static_cast<Bits>((1 << (F::num_bits - 1)) - 1)};
  if (std::isinf(value)) return {static_cast<Bits>(sign | F::overflow)};
  const double magnitude = std::fabs(static_cast<double>(value));
  const int exponent = magnitude == 0 ? 1 - F::bias : std::max(std::ilogb(magnitude), 1 - F::bias);
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, F::fraction_bits - exponent)));
  // A normal number has the leading bit among its units, and an exponent field that is one larger for it.
  const int bits = ((exponent + F::bias - 1) << F::fraction_bits) + units;
  return {static_cast<Bits>(sign | std::min(bits, F::overflow))};
}

template <class Format>
float expected_widen(Format value) {
  using F = FormatOf<Format>;
  const int fraction = value.bits & ((1 << F::fraction_bits) - 1);
  const int exponent = magnitude(value) >> F::fraction_bits;
  double result = std::ldexp(fraction + (1 << F::fraction_bits), exponent - F::bias - F::fraction_bits);
  if (exponent == 0) result = std::ldexp(fraction, 1 - F::bias - F::fraction_bits);
  if (F::fraction_bits != 3 && magnitude(value) == F::first_nan - 1)
    result = HUGE_VAL;  // e4m3 has no infinity
  if (magnitude(value) >= F::first_nan) result = std::nan("");
  return static_cast<float>(std::copysign(result, value.bits >> (F::num_bits - 1) != 0 ? -1.0 : 1.0));
}

/// Up if the discarded half and the random half together reach one unit.
inline bf16 expected_stochastic(const RoundingDraw& draw, float value, std::int64_t i) {
  if (std::isnan(value)) return {0x7FFF};
  const Philox philox(draw.seed, 0x53520001, static_cast<std::uint32_t>(draw.step));
  const std::uint32_t word = philox.word(draw.first_index + static_cast<std::uint64_t>(i));
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool up = bits % 65536 + word / 65536 >= 65536;
  return {static_cast<std::uint16_t>(bits / 65536 + (up ? 1 : 0))};
}

/// A parameter and the state of any rule.
struct Values {
  float master = 0, exp_avg = 0, exp_avg_sq = 0, max_exp_avg_sq = 0;
};

inline float descending(float grad, bool maximize) {
  return maximize ? std::copysign(grad, std::signbit(grad) ? 1.0F : -1.0F) : grad;
}

inline float with_decay(const StepScalars& s, float g, float master) {
  volatile float w = s.weight_decay * master;
  volatile float sum = g + w;
  return s.has_decay != 0 ? static_cast<float>(sum) : g;
}

inline Values expected_adam(bool decoupled, const AdamOptions& options, const StepScalars& s, float grad,
                            const Values& old) {
  float g = descending(grad, options.maximize);
  if (!decoupled) g = with_decay(s, g, old.master);
  volatile float a1 = s.beta1 * old.exp_avg;
  volatile float a2 = s.one_minus_beta1 * g;
  volatile float exp_avg = a1 + a2;
  volatile float h = g * g;
  volatile float b1 = s.beta2 * old.exp_avg_sq;
  volatile float b2 = s.one_minus_beta2 * h;
  volatile float exp_avg_sq = b1 + b2;
  float x = exp_avg_sq, largest = old.max_exp_avg_sq;
  if (options.amsgrad) {
    if (!(largest >= x)) largest = x;
    x = largest;
  }
  volatile float root = std::sqrt(x);
  volatile float r = root / s.sqrt_bias_correction2;
  volatile float d = r + s.eps;
  volatile float q = exp_avg / d;
  volatile float u = s.step_size * q;
  if (decoupled && s.has_decay != 0) {
    volatile float w = s.lr_weight_decay * old.master;
    u = u + w;
  }
  volatile float master = old.master - u;
  return {master, exp_avg, exp_avg_sq, largest};
}

/// momentum_buffer stands in exp_avg.
inline Values expected_sgd(const SgdOptions& options, const StepScalars& s, float grad, const Values& old) {
  const float g = with_decay(s, descending(grad, options.maximize), old.master);
  volatile float buffer = old.exp_avg;
  volatile float e = g;
  if (options.momentum) {
    volatile float x = s.momentum * buffer;
    volatile float y = s.one_minus_dampening * g;
    buffer = x + y;
    if (s.is_first != 0) buffer = g;
    volatile float h = s.momentum * buffer;
    volatile float ahead = g + h;
    e = options.nesterov ? ahead : buffer;
  }
  volatile float step = s.lr * e;
  volatile float master = old.master - step;
  return {master, buffer};
}

inline Values expected_sgd_ema(const SgdEmaOptions& options, const StepScalars& s, float grad,
                               const Values& old) {
  const float g = with_decay(s, descending(grad, options.maximize), old.master);
  volatile float a1 = s.beta1 * old.exp_avg;
  volatile float a2 = s.one_minus_beta1 * g;
  volatile float exp_avg = a1 + a2;
  volatile float step = s.lr * exp_avg;
  volatile float master = old.master - step;
  return {master, exp_avg};
}

}  // namespace zeroproof::device_test
