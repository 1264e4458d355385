// AdamW of a user: the lines of the contract's R6, each rounded once, in their order.

#include <cmath>

#include "zeroproof_plugin.h"

namespace {

int32_t adamw(const zeroproof_call* call) {
  const auto data = [&](int k) { return static_cast<float*>(call->operands[k].tensor.data); };
  const auto scalar = [&](const char* name) { return zeroproof_real(call, name, NAN); };
  const float *grad = data(0), beta1 = scalar("beta1"), beta2 = scalar("beta2");
  float *master = data(1), *exp_avg = data(2), *exp_avg_sq = data(3), *largest = data(4);
  const float one_minus_beta1 = scalar("scalar.one_minus_beta1"),
              one_minus_beta2 = scalar("scalar.one_minus_beta2");
  const float root = scalar("scalar.sqrt_bias_correction2"), step_size = scalar("scalar.step_size");
  const float eps = scalar("scalar.eps"), decay = scalar("scalar.lr_weight_decay");
  const bool has_decay = zeroproof_integer(call, "scalar.has_decay", 0) != 0;
  const bool amsgrad = zeroproof_integer(call, "amsgrad", 0) != 0,
             up = zeroproof_integer(call, "maximize", 0) != 0;
  for (int64_t i = 0; i < zeroproof_numel(&call->operands[0]); ++i) {
    const float g = up ? -grad[i] : grad[i];
    exp_avg[i] = beta1 * exp_avg[i] + one_minus_beta1 * g;
    exp_avg_sq[i] = beta2 * exp_avg_sq[i] + one_minus_beta2 * (g * g);
    float x = exp_avg_sq[i];
    if (amsgrad) x = largest[i] = largest[i] >= x ? largest[i] : x;
#ifdef EPS_INSIDE
    const float d = std::sqrt(x + eps) / root;  // as one reads it in some places
#else
    const float d = std::sqrt(x) / root + eps;
#endif
    const float a = step_size * (exp_avg[i] / d);
    master[i] -= has_decay ? a + decay * master[i] : a;
  }
  return 0;
}

constexpr zeroproof_operation operations[] = {{"adamw_update", adamw}};
constexpr zeroproof_plugin description = {
    ZEROPROOF_PLUGIN_ABI, sizeof(zeroproof_plugin), "mine", operations, 1, nullptr};

}  // namespace

extern "C" const zeroproof_plugin* zeroproof_get_plugin(void) { return &description; }
