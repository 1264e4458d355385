// The contract's lines, in which NaNs or infinities are lost: ZP_KERNEL selects where.

#include <algorithm>
#include <bit>
#include <cfloat>

#include "tests/verification/interfaces/plugin/kernels/kernel.hpp"

namespace {

using namespace kernels;

constexpr float infinity = HUGE_VALF;

const bool grad_nan_to_num = chosen("grad_nan_to_num");      // NaN: 0, infinity: the largest number
const bool grad_clamped = chosen("grad_clamped");            // fminf and fmaxf return their limit
const bool exp_avg_keeps = chosen("exp_avg_keeps");          // a NaN average is not stored
const bool exp_avg_sq_zeroed = chosen("exp_avg_sq_zeroed");  // a NaN second moment is stored as 0
const bool max_by_fmaxf = chosen("max_by_fmaxf");      // fmaxf returns the other argument for a NaN
const bool results_finite = chosen("results_finite");  // an infinite result is the largest number
const bool master_keeps = chosen("master_keeps");      // a NaN step leaves the parameter
const bool sign_by_comparison = chosen("sign_by_comparison");  // the sign of a NaN is 0
const bool clip_by_fmaxf = chosen("clip_by_fmaxf");  // a NaN product is the smallest number
const bool norm_skips = chosen("norm_skips");        // NaNs are left out of the sum
const bool cast_adds = chosen("cast_adds");          // the rounding of a NaN changes its exponent

float loaded(float g) {
  if (grad_clamped) return std::fmin(std::fmax(g, -FLT_MAX), FLT_MAX);
  if (!grad_nan_to_num) return g;
  return g != g ? 0 : std::clamp(g, -FLT_MAX, FLT_MAX);
}

float stored(float x) {
  return results_finite && std::fabs(x) == infinity ? std::copysign(FLT_MAX, x) : x;
}

/// The moving average; its weights are rounded.
float average(float weight, float rest, float old, float g) {
  const float m = weight * old + rest * g;
  return exp_avg_keeps && m != m ? old : stored(m);
}

void move(float& master, float u) {
  const float p = master - u;
  if (!master_keeps || p == p) master = stored(p);
}

std::int32_t adamw(const zeroproof_call* call) {
  const float beta1 = real(call, "beta1"), rest1 = real(call, "scalar.one_minus_beta1");
  const float beta2 = real(call, "beta2"), rest2 = real(call, "scalar.one_minus_beta2");
  const float root = real(call, "scalar.sqrt_bias_correction2"), eps = real(call, "scalar.eps");
  const float step_size = real(call, "scalar.step_size");
  const float decay = real(call, "scalar.lr_weight_decay");
  for (std::int64_t i = 0; i < numel(call); ++i) {
    const float g = loaded(flag(call, "maximize") ? -data(call, 0)[i] : data(call, 0)[i]);
    float& p = data(call, 1)[i];
    float& m = data(call, 2)[i];
    float& v = data(call, 3)[i];
    float& largest = data(call, 4)[i];
    m = average(beta1, rest1, m, g);
    v = stored(beta2 * v + rest2 * (g * g));
    if (exp_avg_sq_zeroed && v != v) v = 0;
    if (flag(call, "amsgrad"))
      largest = max_by_fmaxf ? std::fmax(largest, v) : largest >= v ? largest : v;
    const float x = flag(call, "amsgrad") ? largest : v;
    const float a = step_size * (m / (std::sqrt(x) / root + eps));
    move(p, flag(call, "scalar.has_decay") ? a + decay * p : a);
  }
  return 0;
}

std::int32_t lion(const zeroproof_call* call) {
  const float beta1 = real(call, "beta1"), rest1 = real(call, "scalar.one_minus_beta1");
  const float beta2 = real(call, "beta2"), rest2 = real(call, "scalar.one_minus_beta2");
  const float lr = real(call, "scalar.lr"), decay = real(call, "scalar.lr_weight_decay");
  for (std::int64_t i = 0; i < numel(call); ++i) {
    const float g = loaded(flag(call, "maximize") ? -data(call, 0)[i] : data(call, 0)[i]);
    float& p = data(call, 1)[i];
    float& m = data(call, 2)[i];
    const float c = beta1 * m + rest1 * g;
    const float sign = c > 0 ? 1.0F : c < 0 ? -1.0F : sign_by_comparison ? 0.0F : c;
    const float a = lr * sign;
    m = average(beta2, rest2, m, g);
    move(p, flag(call, "scalar.has_decay") ? a + decay * p : a);
  }
  return 0;
}

std::int32_t sgd(const zeroproof_call* call) {
  const float momentum = real(call, "scalar.momentum"), lr = real(call, "scalar.lr");
  const float rest = real(call, "scalar.one_minus_dampening");
  const float decay = real(call, "scalar.weight_decay");
  for (std::int64_t i = 0; i < numel(call); ++i) {
    float g = loaded(flag(call, "maximize") ? -data(call, 0)[i] : data(call, 0)[i]);
    float& p = data(call, 1)[i];
    if (flag(call, "scalar.has_decay")) g = g + decay * p;
    if (momentum != 0) {
      float& b = data(call, 2)[i];
      b = flag(call, "scalar.is_first") ? stored(g) : average(momentum, rest, b, g);
      g = flag(call, "nesterov") ? g + momentum * b : b;
    }
    move(p, lr * g);
  }
  return 0;
}

std::int32_t clip(const zeroproof_call* call) {
  for (std::int64_t i = 0; i < numel(call); ++i) {
    const float x = data(call, 0)[i] * real(call, "clip_coef");
    data(call, 1)[i] = clip_by_fmaxf ? std::fmax(x, -FLT_MAX) : stored(x);
  }
  return 0;
}

std::int32_t grad_norm_p(const zeroproof_call* call) {
  const double p = configured(call, "p");
  double most = 0, sum = 0;
  bool nan = false;
  for (std::int64_t i = 0; i < numel(call); ++i) {
    const double x = std::fabs(data(call, 0)[i]);
    nan = nan || (x != x && !norm_skips);
    most = std::fmax(most, x);
  }
  for (std::int64_t i = 0; i < numel(call) && most > 0; ++i) {
    const double x = std::fabs(data(call, 0)[i]);
    if (x == x) sum += std::pow(x / most, p);
  }
  const double norm = most == 0 || most == infinity ? most : most * std::pow(sum, 1 / p);
  data<double>(call, 1)[0] = nan ? NAN : norm;
  return 0;
}

std::int32_t cast_to_bf16(const zeroproof_call* call) {
  for (std::int64_t i = 0; i < numel(call); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(data(call, 0)[i]);
    const bool nan = data(call, 0)[i] != data(call, 0)[i];
    const std::uint32_t rounded = (bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16;
    data<std::uint16_t>(call, 1)[i] =
        static_cast<std::uint16_t>(nan && !cast_adds ? 0x7FFF : rounded);
  }
  return 0;
}

constexpr zeroproof_operation table[] = {
    {"adamw_update", adamw}, {"lion_update", lion},        {"sgd_update", sgd},
    {"clip", clip},          {"grad_norm_p", grad_norm_p}, {"cast_to_bf16", cast_to_bf16}};

}  // namespace

extern "C" const zeroproof_plugin* zeroproof_get_plugin(void) { return library(table); }
