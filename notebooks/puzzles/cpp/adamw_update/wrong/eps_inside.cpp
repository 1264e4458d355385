// caught: first at  master[0]  numel 1, offset 0, variant typical plain | in no legal order

#include <cmath>

#include "common/contracts/adam.hpp"

namespace zeroproof::mine {

void adamw_update(const Exec&, const AdamOptions& options, const StepScalars& s,
                  Span<const float> grad, Span<float> master, Span<float> exp_avg,
                  Span<float> exp_avg_sq, Span<float> max_exp_avg_sq) {
  for (std::size_t i = 0; i < grad.size(); ++i) {
    const float g = options.maximize ? -grad[i] : grad[i];
    exp_avg[i] = s.beta1 * exp_avg[i] + s.one_minus_beta1 * g;
    exp_avg_sq[i] = s.beta2 * exp_avg_sq[i] + s.one_minus_beta2 * (g * g);
    float x = exp_avg_sq[i];
    if (options.amsgrad) x = max_exp_avg_sq[i] = max_exp_avg_sq[i] >= x ? max_exp_avg_sq[i] : x;
    const float a = s.step_size * (exp_avg[i] / (std::sqrt(x + s.eps) / s.sqrt_bias_correction2));
    master[i] -= s.has_decay != 0 ? a + s.lr_weight_decay * master[i] : a;
  }
}

}  // namespace zeroproof::mine
