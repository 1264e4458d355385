// AdamW and Adam with the errors that kernels get when they are transcribed: R6 line by line, but for what ZP_KERNEL
// says.

#include <algorithm>
#include <bit>
#include <utility>

#include "tests/verification/interfaces/plugin/kernels/kernel.hpp"

namespace {

using namespace kernels;

const bool fixed_shape = chosen("fixed_shape");      // written for 1024 elements, and launched once
const bool tail_missing = chosen("tail_missing");    // whole vectors of 8 only
const bool share_missing = chosen("share_missing");  // equal shares of threads, without what they leave over
const bool mask_of_first =
    chosen("mask_of_first");  // the mask of the first block of 16 serves for the last one
const bool mask_of_call_before = chosen("mask_of_call_before");  // the mask is kept from the call before
const bool wrong_axis =
    chosen("wrong_axis");  // gradients read along the other axis of a matrix of 32 columns
const bool eps_dropped = chosen("eps_dropped");
const bool eps_inside = chosen("eps_inside");
const bool eps_in_half = chosen("eps_in_half");            // a constant of fp16, in which 1e-8 is 0
const bool beta_in_half = chosen("beta_in_half");          // 1 - beta2 through fp16
const bool moment_in_bf16 = chosen("moment_in_bf16");      // exp_avg kept in bf16
const bool maximum_not_kept = chosen("maximum_not_kept");  // amsgrad's maximum is used and not stored
const bool maximize_ignored = chosen("maximize_ignored");
const bool decay_in_gradient = chosen("decay_in_gradient");    // AdamW with L2's decay
const bool decay_of_result = chosen("decay_of_result");        // the decay reads the parameter after the step
const bool decay_beside = chosen("decay_beside");              // Adam with AdamW's decay
const bool correction_dropped = chosen("correction_dropped");  // no correction of the second moment
const bool root_estimated =
    chosen("root_estimated");  // a reciprocal root of 12 bits, as vector units have one
const bool denominator_of_before = chosen("denominator_of_before");  // the second moment before this step
const bool first_gradient = chosen("first_gradient");  // every element reads the first gradient of its vector

float in_half(float x) { return static_cast<float>(static_cast<_Float16>(x)); }

float in_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7FFFU + (bits >> 16 & 1U)) & 0xFFFF0000U);
}

/// 1 / sqrt(x) to 12 bits.
float estimated_root(float x) {
  const float exact = 1 / std::sqrt(x);
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(exact) + 0x400U) & 0xFFFFF800U);
}

/// How many of the elements a launch covers.
std::int64_t covered(const zeroproof_call* call) {
  const std::int64_t all = numel(call);
  if (fixed_shape) return std::min<std::int64_t>(all, 1024);
  if (tail_missing) return all / 8 * 8;
  if (share_missing) return all / call->num_threads * call->num_threads;
  if (mask_of_first && all > 16) return (all + 15) / 16 * 16;
  static std::int64_t before = all;
  if (mask_of_call_before) return std::min(all, std::exchange(before, all));
  return all;
}

std::int64_t gradient_of(std::int64_t i, std::int64_t all) {
  if (first_gradient) return i / 8 * 8;
  if (!wrong_axis || all % 32 != 0) return i;
  return i % 32 * (all / 32) + i / 32;
}

std::int32_t update(const zeroproof_call* call, bool decoupled) {
  const float *grad = data(call, 0), beta1 = real(call, "beta1"), beta2 = real(call, "beta2");
  float *master = data(call, 1), *exp_avg = data(call, 2), *exp_avg_sq = data(call, 3),
        *largest = data(call, 4);
  const float one_minus_beta1 = real(call, "scalar.one_minus_beta1");
  const float given = real(call, "scalar.one_minus_beta2");
  const float one_minus_beta2 = beta_in_half ? in_half(given) : given;
  const float root = correction_dropped ? 1 : real(call, "scalar.sqrt_bias_correction2");
  const float step_size = real(call, "scalar.step_size"), told = real(call, "scalar.eps");
  const float eps = eps_dropped ? 0 : eps_in_half ? in_half(told) : told;
  const float beside = real(call, "scalar.lr_weight_decay"), inside = real(call, "scalar.weight_decay");
  const bool decays = flag(call, "scalar.has_decay"), amsgrad = flag(call, "amsgrad");
  const bool up = flag(call, "maximize") && !maximize_ignored;
  const std::int64_t all = numel(call), end = covered(call);
  for (std::int64_t i = 0; i < end; ++i) {
    const float read = grad[gradient_of(i, all)];
    float g = up ? -read : read;
    if (decays && !decoupled) g = g + inside * master[i];
    exp_avg[i] = beta1 * exp_avg[i] + one_minus_beta1 * g;
    if (moment_in_bf16) exp_avg[i] = in_bf16(exp_avg[i]);
    float x = exp_avg_sq[i];
    exp_avg_sq[i] = beta2 * x + one_minus_beta2 * (g * g);
    if (!denominator_of_before) x = exp_avg_sq[i];
    if (amsgrad) {
      x = largest[i] >= x ? largest[i] : x;
      if (!maximum_not_kept) largest[i] = x;
    }
    const float inverse = estimated_root(x);
    const float square_root = root_estimated ? x * inverse : std::sqrt(eps_inside ? x + eps : x);
    const float d = eps_inside ? square_root / root : square_root / root + eps;
    const float a = step_size * (exp_avg[i] / d);
    if (decay_of_result && decays && decoupled) {
      master[i] -= a;
      master[i] -= beside * master[i];
    } else {
      master[i] -= decays && decoupled ? a + beside * master[i] : a;
    }
  }
  return 0;
}

std::int32_t adamw(const zeroproof_call* call) { return update(call, !decay_in_gradient); }
std::int32_t adam(const zeroproof_call* call) { return update(call, decay_beside); }

constexpr zeroproof_operation table[] = {{"adamw_update", adamw}, {"adam_update", adam}};

}  // namespace

extern "C" const zeroproof_plugin* zeroproof_get_plugin(void) { return library(table); }
