// AdamW, SGD and Lion of bf16 parameters without an fp32 master: read, updated in fp32, rounded to
// bf16 once. FUSED contracts products and sums, which is legal and has other bits. The other macros
// make them wrong.

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

/// A moment as a step reads it.
float stored(float moment) {
#ifdef MOMENTS_ROUNDED  // as if it were stored in bf16
  return widened(rounded(moment));
#else
  return moment;
#endif
}

/// A call of an update: gradient and parameter in bf16, state in fp32.
struct Call {
  explicit Call(const zeroproof_call* of) : call(of) {}

  const zeroproof_call* call;
  int64_t numel = zeroproof_numel(&call->operands[0]);
  uint16_t* master = narrow(1);
  bool has_decay = flag("scalar.has_decay"), up = flag("maximize");

  uint16_t* narrow(int k) const { return static_cast<uint16_t*>(call->operands[k].tensor.data); }
  float* state(int k) const { return static_cast<float*>(call->operands[k].tensor.data); }
  float scalar(const char* name) const { return zeroproof_real(call, name, NAN); }
  bool flag(const char* name) const { return zeroproof_integer(call, name, 0) != 0; }
  float grad(int64_t i) const { return up ? -widened(narrow(0)[i]) : widened(narrow(0)[i]); }

  /// Stores the parameter less `update` and a decay that is no part of the gradient.
  void store(int64_t i, float update, float decay) const {
    float p = widened(master[i]);
#ifdef DECAY_ROUNDED  // two kernels, each of which stores the parameter
    if (has_decay) p = widened(rounded(p - decay * p));
#else
    if (has_decay) update = multiply_add(decay, p, update);
#endif
    master[i] = rounded(p - update);
  }
};

int32_t adamw(const zeroproof_call* call) {
  const Call x(call);
  float *exp_avg = x.state(2), *exp_avg_sq = x.state(3), *largest = x.state(4);
  const float beta1 = x.scalar("beta1"), one_minus_beta1 = x.scalar("scalar.one_minus_beta1");
  const float beta2 = x.scalar("beta2"), one_minus_beta2 = x.scalar("scalar.one_minus_beta2");
  const float root = x.scalar("scalar.sqrt_bias_correction2");
  const float step_size = x.scalar("scalar.step_size"), eps = x.scalar("scalar.eps");
  const float decay = x.scalar("scalar.lr_weight_decay");
  const bool amsgrad = x.flag("amsgrad");
  for (int64_t i = 0; i < x.numel; ++i) {
    const float g = x.grad(i);
    exp_avg[i] = multiply_add(one_minus_beta1, g, beta1 * exp_avg[i]);
    exp_avg_sq[i] = multiply_add(one_minus_beta2, g * g, beta2 * exp_avg_sq[i]);
    float v = exp_avg_sq[i];
    if (amsgrad) v = largest[i] = largest[i] >= v ? largest[i] : v;
    x.store(i, step_size * (stored(exp_avg[i]) / (std::sqrt(stored(v)) / root + eps)), decay);
  }
  return 0;
}

int32_t sgd(const zeroproof_call* call) {
  const Call x(call);
  float* momentum_buffer = x.state(2);
  const float lr = x.scalar("scalar.lr"), decay = x.scalar("scalar.weight_decay");
  const float momentum = x.scalar("scalar.momentum");
  const float one_minus_dampening = x.scalar("scalar.one_minus_dampening");
  const bool nesterov = x.flag("nesterov"), is_first = x.flag("scalar.is_first");
  for (int64_t i = 0; i < x.numel; ++i) {
    const float p = widened(x.master[i]);
    float g = x.grad(i);
    if (x.has_decay) g = multiply_add(decay, p, g);
#ifdef DECAY_ROUNDED  // a kernel adds the decay to the gradient, which is bf16
    g = widened(rounded(g));
#endif
    float e = g;
    if (momentum != 0) {
      float& b = momentum_buffer[i];
      b = is_first ? g : multiply_add(momentum, b, one_minus_dampening * g);
      e = nesterov ? multiply_add(momentum, stored(b), g) : stored(b);
    }
    x.master[i] = rounded(multiply_add(-lr, e, p));
  }
  return 0;
}

int32_t lion(const zeroproof_call* call) {
  const Call x(call);
  float* exp_avg = x.state(2);
  const float beta1 = x.scalar("beta1"), one_minus_beta1 = x.scalar("scalar.one_minus_beta1");
  const float beta2 = x.scalar("beta2"), one_minus_beta2 = x.scalar("scalar.one_minus_beta2");
  const float lr = x.scalar("scalar.lr"), decay = x.scalar("scalar.lr_weight_decay");
  for (int64_t i = 0; i < x.numel; ++i) {
    const float g = x.grad(i), m = stored(exp_avg[i]);
    const float c = multiply_add(one_minus_beta1, g, beta1 * m);
    x.store(i, lr * (c > 0 ? 1 : c < 0 ? -1 : c), decay);
    exp_avg[i] = multiply_add(beta2, m, one_minus_beta2 * g);
  }
  return 0;
}

constexpr zeroproof_operation operations[] = {
    {"adamw_update_bf16", adamw}, {"sgd_update_bf16", sgd}, {"lion_update_bf16", lion}};
constexpr zeroproof_plugin description = {
    ZEROPROOF_PLUGIN_ABI, sizeof(zeroproof_plugin), "narrow", operations, 3, nullptr};

}  // namespace

extern "C" const zeroproof_plugin* zeroproof_get_plugin(void) { return &description; }
