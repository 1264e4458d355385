#pragma once
// AdamW kernels without the contract's bits, for judges that accept any legal order.

#include <cmath>
#include <cstring>

#include "verification/ops/op.hpp"
#include "verification/ops/operations/update_settings.hpp"

namespace zeroproof::tests {

/// The contract's results for a gradient whose NaNs are 0.
inline void adamw_without_nan(verification::OpCall& call) {
  verification::OpCall clean = call.copy();
  for (float& g : clean.get<float>(0)) g = std::isnan(g) ? 0 : g;
  verification::find_op("adamw_update")->reference(clean);
  for (std::size_t k = 1; k < 5; ++k) {
    const TensorView from = clean.view(k);
    if (from.numel > 0)
      std::memcpy(call.view(k).data, from.data, static_cast<std::size_t>(from.num_bytes()));
  }
}

/// The decay as a factor, legal: an infinite parameter stays infinite, where the contract has NaN.
inline void adamw_decay_as_factor(verification::OpCall& call) {
  const auto s = verification::update_settings(call.variant() / 4, {}).scalars;
  const bool amsgrad = call.variant() % 2 == 1;
  const float sign = call.variant() / 2 % 2 == 1 ? -1.0F : 1.0F;
  for (std::size_t i = 0; i < static_cast<std::size_t>(call.numel()); ++i) {
    const float g = sign * call.in<float>(0)[i];
    float& p = call.get<float>(1)[i];
    float& m = call.get<float>(2)[i];
    float& v = call.get<float>(3)[i];
    float& largest = call.get<float>(4)[i];
    m = s.beta1 * m + s.one_minus_beta1 * g;
    v = s.beta2 * v + s.one_minus_beta2 * (g * g);
    if (amsgrad) largest = largest >= v ? largest : v;
    const float d = std::sqrt(amsgrad ? largest : v) / s.sqrt_bias_correction2 + s.eps;
    if (s.has_decay != 0) p *= 1 - s.lr_weight_decay;
    p -= s.step_size * (m / d);
  }
}

}  // namespace zeroproof::tests
