// AdamW in the order in which PyTorch's processor kernels compute it: moves instead of sums, fused multiply-adds, and
// the decay as a factor. Correct, and not the contract's bits. Three macros make it wrong; FP32_POWERS computes beta^t
// in fp32, as torch.compile does.

#include <cmath>

#include "zeroproof_plugin.h"

namespace {

int32_t adamw(const zeroproof_call* call) {
  const auto data = [&](int k) { return static_cast<float*>(call->operands[k].tensor.data); };
  const auto setting = [&](const char* name) { return zeroproof_real(call, name, NAN); };
  const auto flag = [&](const char* name) { return zeroproof_integer(call, name, 0) != 0; };
  const double beta1 = setting("beta1"), beta2 = setting("beta2"), lr = setting("lr");
  const auto t = static_cast<double>(zeroproof_integer(call, "t", 1));
  const bool corrects = flag("bias_correction");
  const auto weight = static_cast<float>(1 - beta1),
             keep = static_cast<float>(1 - lr * setting("weight_decay"));
#ifdef FP32_POWERS
  const double power1 = static_cast<float>(std::pow(beta1, t)),
               power2 = static_cast<float>(std::pow(beta2, t));
#else
  const double power1 = std::pow(beta1, t), power2 = std::pow(beta2, t);
#endif
  const auto root = static_cast<float>(corrects ? std::sqrt(1 - power2) : 1);
  const auto rate = static_cast<float>(corrects ? lr / (1 - power1) : lr);
  auto square_weight = static_cast<float>(1 - beta2), eps = static_cast<float>(setting("eps"));
  int64_t numel = zeroproof_numel(&call->operands[0]);
#ifdef BETA_ROUNDED  // through half precision, as a constant in a kernel of that type would be
  square_weight = static_cast<float>(static_cast<_Float16>(square_weight));
#endif
#ifdef REMAINDER_LOST
  numel -= numel % 8;
#endif
  for (int64_t i = 0; i < numel; ++i) {
    const float g = flag("maximize") ? -data(0)[i] : data(0)[i];
    float &p = data(1)[i], &m = data(2)[i], &v = data(3)[i], &largest = data(4)[i];
    p = p * keep;
    m = weight < 0.5F ? std::fma(weight, g - m, m) : std::fma(weight - 1, g - m, g);
    v = std::fma(square_weight * g, g, v * static_cast<float>(beta2));
    const float x = flag("amsgrad") ? (largest = largest >= v ? largest : v) : v;
#ifdef EPS_INSIDE
    p = p + (-rate * m) / (std::sqrt(x + eps) / root);
#else
    p = p + (-rate * m) / (std::sqrt(x) / root + eps);
#endif
  }
  return 0;
}

constexpr zeroproof_operation operations[] = {{"adamw_update", adamw}};
constexpr zeroproof_plugin description = {
    ZEROPROOF_PLUGIN_ABI, sizeof(zeroproof_plugin), "theirs", operations, 1, nullptr};

}  // namespace

extern "C" const zeroproof_plugin* zeroproof_get_plugin(void) { return &description; }
