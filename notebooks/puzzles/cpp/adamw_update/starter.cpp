// AdamW in C++, with amsgrad and maximize, for every case of op/adamw_update (lesson 3; rule R6).

#include "common/contracts/adam.hpp"

namespace zeroproof::mine {

/// One fp32 rounding per operation; g is grad, or with options.maximize grad with its sign flipped.
///
///   exp_avg    = beta1 * exp_avg + one_minus_beta1 * g
///   exp_avg_sq = beta2 * exp_avg_sq + one_minus_beta2 * (g * g)
///   x          = exp_avg_sq; with options.amsgrad max_exp_avg_sq = x = max_exp_avg_sq >= x ? max_exp_avg_sq : x
///   a          = step_size * (exp_avg / (sqrt(x) / sqrt_bias_correction2 + eps))
///   u          = a + lr_weight_decay * master if has_decay, else a
///   master     = master - u
///
/// Names that are not buffers are members of s. Without amsgrad max_exp_avg_sq is empty.
void adamw_update(const Exec&, const AdamOptions& options, const StepScalars& s,
                  Span<const float> grad, Span<float> master, Span<float> exp_avg,
                  Span<float> exp_avg_sq, Span<float> max_exp_avg_sq) {
  // TODO: the lines above, for every element
}

}  // namespace zeroproof::mine
