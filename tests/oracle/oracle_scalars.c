/* Step scalars of the oracle (R5). Everything is fp64 here; the only fp32 operation is the last cast. */

#include <float.h>
#include <math.h>

#include "oracle.h"

/* R5: from the right, one multiplication per written product. */
static double power(double base, int64_t exponent) {
  double result = 1.0;
  for (;;) {
    if (exponent % 2 == 1) result = result * base;
    exponent = exponent / 2;
    if (exponent == 0) return result;
    base = base * base;
  }
}

/* NaN is outside of every range. */
static int in_range(double low, double value, double high) { return value >= low && value <= high; }

static int ranges_hold(const oracle_hyper* hyper, int64_t t, double scale_times_divisor,
                       int64_t divisor) {
  const double beta1 = hyper->beta1;
  const double beta2 = hyper->beta2;
  const double eps = (double)(float)hyper->eps;
  const double clip_value = (double)(float)hyper->clip_value;
  if (t < 1 || divisor < 1 || divisor >= (int64_t)1 << 53) return 0;
  if (!in_range(ldexp(1, -126), scale_times_divisor, ldexp(1, 126))) return 0;
  if (!(isfinite(hyper->eps) && eps >= ldexp(1, -126))) return 0;
  if (!in_range(0, beta2, 1 - ldexp(1, -23)) || !in_range(0, beta1, 1 - ldexp(1, -23))) return 0;
  if (!in_range(0, hyper->lr, DBL_MAX) || !in_range(0, hyper->weight_decay, DBL_MAX)) return 0;
  if (!in_range(0, hyper->momentum, 1) || !in_range(0, hyper->dampening, 1)) return 0;
  if (hyper->has_max_norm && !in_range(0, hyper->max_norm, DBL_MAX)) return 0;
  return !hyper->has_clip_value || (clip_value > 0 && clip_value <= (double)FLT_MAX);
}

static int options_fit(const oracle_hyper* hyper) {
  const int is_sgd = hyper->rule == oracle_rule_sgd;
  const int is_adam = hyper->rule == oracle_rule_adamw || hyper->rule == oracle_rule_adam;
  const int is_muon = hyper->rule == oracle_rule_muon;
  if (hyper->nesterov && !((is_sgd || is_muon) && hyper->momentum > 0 && hyper->dampening == 0))
    return 0;
  if (hyper->amsgrad && !is_adam) return 0;
  if (hyper->momentum != 0 && !is_sgd && !is_muon) return 0;
  return is_sgd || hyper->dampening == 0;
}

int oracle_step_scalars(const oracle_hyper* hyper, int64_t t, int log2_loss_scale, int64_t divisor,
                        oracle_scalars* scalars) {
  /* Exact: a divisor below 2^53 times a power of two. Where ldexp overflows or underflows, the value is outside of R5's range too. */
  const double scale_times_divisor = ldexp((double)divisor, log2_loss_scale);
  const double beta1 = hyper->beta1;
  const double beta2 = hyper->beta2;
  const double decay = hyper->lr * hyper->weight_decay;
  double coefficient = hyper->weight_decay;
  double root2 = 1.0;
  double step_size = hyper->lr;
  if (!ranges_hold(hyper, t, scale_times_divisor, divisor) || !options_fit(hyper)) return 0;
  if (hyper->bias_correction) {
    root2 = sqrt(1.0 - power(beta2, t));
    step_size = hyper->lr / (1.0 - power(beta1, t));
  }
  if (hyper->rule == oracle_rule_adamw || hyper->rule == oracle_rule_lion ||
      hyper->rule == oracle_rule_lamb || hyper->rule == oracle_rule_muon)
    coefficient = decay;
  scalars->inv_scale = (float)(1.0 / scale_times_divisor);
  scalars->beta1 = hyper->beta1;
  scalars->one_minus_beta1 = (float)(1.0 - beta1);
  scalars->beta2 = hyper->beta2;
  scalars->one_minus_beta2 = (float)(1.0 - beta2);
  scalars->sqrt_bias_correction2 = (float)root2;
  scalars->step_size = (float)step_size;
  scalars->eps = (float)hyper->eps;
  scalars->lr_weight_decay = (float)decay;
  scalars->weight_decay = (float)hyper->weight_decay;
  scalars->lr = (float)hyper->lr;
  scalars->momentum = (float)hyper->momentum;
  scalars->one_minus_dampening = (float)(1.0 - hyper->dampening);
  if (hyper->rule == oracle_rule_muon && !hyper->heavy_ball)
    scalars->one_minus_dampening = (float)(1.0 - hyper->momentum);
  scalars->has_decay = coefficient != 0 ? 1 : 0;
  scalars->is_first = t == 1 ? 1 : 0;
  return 1;
}
