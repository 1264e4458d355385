// AdamW of bf16 parameters without an fp32 master: read, updated in fp32, rounded to bf16 once.
// FUSED contracts products and sums, which is legal and has other bits. The other macros make it
// wrong.

#include <bit>
#include <cmath>

#include "zeroproof_plugin.h"

namespace {

float widened(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

uint16_t rounded(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (std::isnan(x)) return 0x7FFF;
#ifdef TRUNCATED
  return static_cast<uint16_t>(bits >> 16);
#else
  return static_cast<uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);  // to nearest even
#endif
}

float multiply_add(float a, float b, float c) {
#ifdef FUSED
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}

int32_t adamw(const zeroproof_call* call) {
  const auto narrow = [&](int k) { return static_cast<uint16_t*>(call->operands[k].tensor.data); };
  const auto wide = [&](int k) { return static_cast<float*>(call->operands[k].tensor.data); };
  const auto scalar = [&](const char* name) { return zeroproof_real(call, name, NAN); };
  const uint16_t* grad = narrow(0);
  uint16_t* master = narrow(1);
  float *exp_avg = wide(2), *exp_avg_sq = wide(3), *largest = wide(4);
  const float beta1 = scalar("beta1"), one_minus_beta1 = scalar("scalar.one_minus_beta1");
  const float beta2 = scalar("beta2"), one_minus_beta2 = scalar("scalar.one_minus_beta2");
  const float root = scalar("scalar.sqrt_bias_correction2"), step_size = scalar("scalar.step_size");
  const float eps = scalar("scalar.eps"), decay = scalar("scalar.lr_weight_decay");
  const bool has_decay = zeroproof_integer(call, "scalar.has_decay", 0) != 0;
  const bool amsgrad = zeroproof_integer(call, "amsgrad", 0) != 0,
             up = zeroproof_integer(call, "maximize", 0) != 0;
  for (int64_t i = 0; i < zeroproof_numel(&call->operands[0]); ++i) {
    const float g = up ? -widened(grad[i]) : widened(grad[i]);
    exp_avg[i] = multiply_add(one_minus_beta1, g, beta1 * exp_avg[i]);
    exp_avg_sq[i] = multiply_add(one_minus_beta2, g * g, beta2 * exp_avg_sq[i]);
    float m = exp_avg[i], v = exp_avg_sq[i], p = widened(master[i]);
    if (amsgrad) v = largest[i] = largest[i] >= v ? largest[i] : v;
#ifdef MOMENTS_ROUNDED  // as if they were stored in bf16
    m = widened(rounded(m));
    v = widened(rounded(v));
#endif
    float u = step_size * (m / (std::sqrt(v) / root + eps));
#ifdef DECAY_ROUNDED  // two kernels, each of which stores the parameter
    if (has_decay) p = widened(rounded(p - decay * p));
#else
    if (has_decay) u = multiply_add(decay, p, u);
#endif
    master[i] = rounded(p - u);
  }
  return 0;
}

constexpr zeroproof_operation operations[] = {{"adamw_update_bf16", adamw}};
constexpr zeroproof_plugin description = {
    ZEROPROOF_PLUGIN_ABI, sizeof(zeroproof_plugin), "narrow", operations, 1, nullptr};

}  // namespace

extern "C" const zeroproof_plugin* zeroproof_get_plugin(void) { return &description; }
