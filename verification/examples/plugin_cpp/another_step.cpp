// Unscale, clip coefficient, clip and norm in other orders than the contract's: quotients instead of products, and fp32
// where the contract has fp64. Correct, and other bits. NO_EPSILON leaves the 1e-6 out, which is wrong.

#include <cmath>

#include "zeroproof_plugin.h"

namespace {

template <class T>
T* data(const zeroproof_call* call, int k) {
  return static_cast<T*>(call->operands[k].tensor.data);
}

int64_t numel(const zeroproof_call* call) { return zeroproof_numel(&call->operands[0]); }

/// x / (1 / factor): such a kernel has the loss scale, or the norm over its limit.
void scale(const zeroproof_call* call, float factor) {
  const float divisor = 1 / factor;
  for (int64_t i = 0; i < numel(call); ++i) {
    const float x = data<float>(call, 0)[i];
    data<float>(call, 1)[i] = std::isinf(divisor) ? x * factor : x / divisor;
  }
}

int32_t unscale(const zeroproof_call* call) {
  scale(call, static_cast<float>(zeroproof_real(call, "inv_scale", NAN)));
  uint32_t found = 0;
  for (int64_t i = 0; i < numel(call); ++i)
    found |= std::isfinite(data<float>(call, 1)[i]) ? 0U : 1U;
  data<uint32_t>(call, 2)[0] = found;
  return 0;
}

int32_t clip(const zeroproof_call* call) {
  scale(call, static_cast<float>(zeroproof_real(call, "clip_coef", NAN)));
  return 0;
}

int32_t clip_coef(const zeroproof_call* call) {
#ifdef NO_EPSILON
  constexpr float epsilon = 0;
#else
  constexpr float epsilon = 1e-6F;
#endif
  for (int64_t i = 0; i < numel(call); ++i) {
    const double limit = data<double>(call, 1)[i];
    const bool limited = data<uint32_t>(call, 2)[i] != 0;
    const bool refused = limited && !(limit >= 0 && std::isfinite(limit));
    float coef = refused ? 0 : 1;
    if (limited && !refused && limit != 0) {
      const float q =
          static_cast<float>(limit) / (static_cast<float>(data<double>(call, 0)[i]) + epsilon);
      coef = q >= 1 ? 1 : q;
    }
    data<float>(call, 3)[i] = coef;
    data<uint32_t>(call, 4)[i] = refused ? 1 : 0;
  }
  return 0;
}

/// One after another, in fp32.
int32_t grad_norm_p(const zeroproof_call* call) {
  const auto p = static_cast<float>(zeroproof_real(call, "p", NAN));
  float largest = 0, sum = 0;
  bool nan = false;
  for (int64_t i = 0; i < numel(call); ++i) {
    const float x = std::fabs(data<float>(call, 0)[i]);
    largest = x > largest ? x : largest;
    nan = nan || std::isnan(x);
  }
  const bool plain = !nan && largest != 0 && !std::isinf(largest);
  for (int64_t i = 0; plain && i < numel(call); ++i) {
    sum += std::pow(std::fabs(data<float>(call, 0)[i]) / largest, p);
  }
  data<double>(call, 1)[0] = nan ? NAN : plain ? largest * std::pow(sum, 1 / p) : largest;
  return 0;
}

constexpr zeroproof_operation operations[] = {
    {"unscale", unscale}, {"clip_coef", clip_coef}, {"clip", clip}, {"grad_norm_p", grad_norm_p}};
constexpr zeroproof_plugin description = {ZEROPROOF_PLUGIN_ABI, sizeof(zeroproof_plugin), "others",
                                          operations, 4};

}  // namespace

extern "C" const zeroproof_plugin* zeroproof_get_plugin(void) { return &description; }
