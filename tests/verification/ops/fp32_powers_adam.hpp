#pragma once
// Adam and AdamW with powers of beta in fp32, right and wrong, for judges that accept them.

#include <cmath>
#include <cstdint>

#include "common/base/float_formats.hpp"
#include "verification/ops/op.hpp"
#include "verification/ops/operations/update_settings.hpp"

namespace zeroproof::tests {

/// Adam or AdamW in the order of torch.compile, and what may be wrong.
struct Fp32PowersAdam {
  UpdateRule rule = UpdateRule::adamw;
  int steps1 = 0, steps2 = 0;  // fp32 numbers from the nearest to beta^t
  int second_half = 0;         // added to steps2 in the second half of a call
  int later = 0;               // added to t
  double lr_factor = 1;
  bool corrects = true, eps_in_root = false, beta2_in_bf16 = false, old_moment = false;
  std::int64_t wrong_element = -1;

  static float power(double beta, std::int64_t t, int steps) {
    auto power = static_cast<float>(std::pow(beta, static_cast<double>(t)));
    for (; steps > 0; --steps) power = std::nextafter(power, 1.0F);
    for (; steps < 0; ++steps) power = std::nextafter(power, 0.0F);
    return power;
  }

  void operator()(verification::OpCall& call) const {
    OptimizerHyper options;
    options.rule = rule;
    const verification::UpdateSettings settings =
        verification::update_settings(call.variant() / 4, options);
    const OptimizerHyper& h = settings.hyper;
    const bool amsgrad = call.variant() % 2 == 1, corrects_bias = h.bias_correction && corrects;
    const float sign = call.variant() / 2 % 2 == 1 ? -1.0F : 1.0F;
    const float beta2 = beta2_in_bf16 ? to_float(to_bf16(h.beta2)) : h.beta2;
    const auto lr = static_cast<float>(h.lr * lr_factor), eps = static_cast<float>(h.eps);
    const auto decay = static_cast<float>(h.weight_decay);
    const auto factor = static_cast<float>(1 - h.lr * lr_factor * h.weight_decay);
    const std::int64_t t = settings.t + later;
    for (std::int64_t i = 0; i < call.numel(); ++i) {
      float &p = call.get<float>(1)[i], &m = call.get<float>(2)[i], &v = call.get<float>(3)[i];
      float g = sign * call.in<float>(0)[i];
      if (rule == UpdateRule::adam && decay != 0) g = g + decay * p;
      const float old = m;
      const int more = 2 * i >= call.numel() ? second_half : 0;
      const float c1 = corrects_bias ? 1 - power(h.beta1, t, steps1) : 1;
      const float c2 = corrects_bias ? 1 - power(beta2, t, steps2 + more) : 1;
      m = h.beta1 * m + (1 - h.beta1) * g;
      v = std::fma(g * g, 1 - beta2, v * beta2);
      float& largest = call.get<float>(4)[i];
      if (amsgrad) largest = largest >= v ? largest : v;
      const float x = amsgrad ? largest : v, used = old_moment ? old : m;
      if (rule == UpdateRule::adamw && decay != 0) p = p * factor;
      const float rate = 1 / c1 * lr;
      p = p - rate * (used / (eps_in_root ? std::sqrt(x + eps) / std::sqrt(c2)
                                          : std::sqrt(x) / std::sqrt(c2) + eps));
      if (i == wrong_element) p += 1;
    }
  }
};

}  // namespace zeroproof::tests
