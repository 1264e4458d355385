#pragma once
// Expected results of the element-wise device implementations: results of the oracle for one
// element.

#include <cstdint>
#include <type_traits>

#include "common/contracts/cast.hpp"
#include "tests/cuda/device_place.hpp"
#include "tests/oracle/oracle_rules.hpp"

namespace zeroproof::device_test {

inline float expected_sum(float left, float right) {
  float sum = 0;
  oracle_add(&left, &right, &sum, 1);
  return sum;
}

inline float expected_unscaled(float x, float inv_scale) {
  float unscaled = 0;
  oracle_unscale(inv_scale, &x, &unscaled, 1);
  return unscaled;
}

inline float expected_clipped(float x, float clip_coef) {
  float clipped = 0;
  oracle_clip(clip_coef, &x, &clipped, 1);
  return clipped;
}

inline float expected_clip_value(float x, float limit) {
  oracle_clip_value(limit, &x, 1);
  return x;
}

template <class Format>
Format expected_narrow(float value) {
  Format target{};
  if constexpr (std::is_same_v<Format, bf16>) oracle_cast_bf16(&value, &target.bits, 1);
  if constexpr (std::is_same_v<Format, fp16>) oracle_cast_fp16(&value, &target.bits, 1);
  if constexpr (std::is_same_v<Format, e4m3>) oracle_cast_e4m3(&value, &target.bits, 1);
  if constexpr (std::is_same_v<Format, e5m2>) oracle_cast_e5m2(&value, &target.bits, 1);
  return target;
}

template <class Format>
float expected_widen(Format value) {
  float target = 0;
  if constexpr (std::is_same_v<Format, bf16>) oracle_widen_bf16(&value.bits, &target, 1);
  if constexpr (std::is_same_v<Format, fp16>) oracle_widen_fp16(&value.bits, &target, 1);
  if constexpr (std::is_same_v<Format, e4m3>) oracle_widen_e4m3(&value.bits, &target, 1);
  if constexpr (std::is_same_v<Format, e5m2>) oracle_widen_e5m2(&value.bits, &target, 1);
  return target;
}

inline bf16 expected_stochastic(const RoundingDraw& draw, float value, std::int64_t i) {
  bf16 target{};
  oracle_cast_stochastic(draw.seed, draw.step, draw.first_index + static_cast<std::uint64_t>(i),
                         &value, &target.bits, 1);
  return target;
}

/// A parameter and the state of any rule; momentum_buffer is in exp_avg. Buffers not used by a rule
/// stay unchanged.
struct Values {
  float master = 0, exp_avg = 0, exp_avg_sq = 0, max_exp_avg_sq = 0;
};

inline Values expected_adam(bool decoupled, const AdamOptions& options, const StepScalars& s,
                            float grad, Values v) {
  tests::adam_by_oracle(decoupled, options, s, {&grad, 1}, {&v.master, 1}, {&v.exp_avg, 1},
                        {&v.exp_avg_sq, 1}, {&v.max_exp_avg_sq, 1});
  return v;
}

inline Values expected_sgd(const SgdOptions& options, const StepScalars& s, float grad, Values v) {
  tests::sgd_by_oracle(options, s, {&grad, 1}, {&v.master, 1}, {&v.exp_avg, 1});
  return v;
}

inline Values expected_sgd_ema(const SgdEmaOptions& options, const StepScalars& s, float grad,
                               Values v) {
  tests::sgd_ema_by_oracle(options, s, {&grad, 1}, {&v.master, 1}, {&v.exp_avg, 1});
  return v;
}

inline Values expected_lion(const LionOptions& options, const StepScalars& s, float grad,
                            Values v) {
  tests::lion_by_oracle(options, s, {&grad, 1}, {&v.master, 1}, {&v.exp_avg, 1});
  return v;
}

}  // namespace zeroproof::device_test
