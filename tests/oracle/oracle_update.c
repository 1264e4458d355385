/* Update rules of the oracle (R6), line by line. Every fp32 operation is one double operation stored in d and
   one cast; oracle.c has the proof that this rounds once. */

#include <math.h>

#include "oracle.h"

/* The gradient for the rules: maximize flips the sign, and L2 decay is added. */
static float seen_gradient(float grad, int maximize, uint32_t has_decay, double weight_decay,
                           double master) {
  float w;
  double d;
  if (maximize) grad = -grad; /* flips only the sign bit */
  if (!has_decay) return grad;
  d = weight_decay * master, w = (float)d;
  d = (double)grad + w;
  return (float)d;
}

void oracle_adam(const oracle_adam_options* options, const oracle_scalars* scalars,
                 const float* grad, float* master, float* exp_avg, float* exp_avg_sq,
                 float* max_exp_avg_sq, size_t numel) {
  const double beta1 = scalars->beta1, one_minus_beta1 = scalars->one_minus_beta1;
  const double beta2 = scalars->beta2, one_minus_beta2 = scalars->one_minus_beta2;
  const double root2 = scalars->sqrt_bias_correction2, step_size = scalars->step_size,
               eps = scalars->eps;
  const double lr_weight_decay = scalars->lr_weight_decay, weight_decay = scalars->weight_decay;
  const uint32_t decoupled_decay = options->decoupled ? scalars->has_decay : 0;
  const uint32_t l2_decay = options->decoupled ? 0 : scalars->has_decay;
  double d;
  float a1, a2, m, h, b1, b2, v, x, s, r, denominator, q, a, w, u;
  size_t i;
  for (i = 0; i < numel; ++i) {
    const double p = master[i];
    const double g = seen_gradient(grad[i], options->maximize, l2_decay, weight_decay, p);
    d = beta1 * exp_avg[i], a1 = (float)d;
    d = one_minus_beta1 * g, a2 = (float)d;
    d = (double)a1 + a2, m = (float)d;
    d = g * g, h = (float)d;
    d = beta2 * exp_avg_sq[i], b1 = (float)d;
    d = one_minus_beta2 * h, b2 = (float)d;
    d = (double)b1 + b2, v = (float)d;
    x = v;
    if (options->amsgrad) {
      if (max_exp_avg_sq[i] >= x)
        x = max_exp_avg_sq[i]; /* false with a NaN on either side: x remains v */
      max_exp_avg_sq[i] = x;
    }
    d = sqrt(x), s = (float)d;
    d = (double)s / root2, r = (float)d;
    d = (double)r + eps, denominator = (float)d;
    d = (double)m / denominator, q = (float)d;
    d = step_size * q, a = (float)d;
    u = a;
    if (decoupled_decay) {
      d = lr_weight_decay * p, w = (float)d;
      d = (double)a + w, u = (float)d;
    }
    d = p - u;
    master[i] = (float)d;
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
  }
}

void oracle_sgd(const oracle_sgd_options* options, const oracle_scalars* scalars, const float* grad,
                float* master, float* momentum_buffer, size_t numel) {
  const double momentum = scalars->momentum, one_minus_dampening = scalars->one_minus_dampening;
  const double lr = scalars->lr, weight_decay = scalars->weight_decay;
  double d;
  float x, y, h, e, s;
  size_t i;
  for (i = 0; i < numel; ++i) {
    const double p = master[i];
    const float g = seen_gradient(grad[i], options->maximize, scalars->has_decay, weight_decay, p);
    e = g;
    if (options->momentum) {
      if (scalars->is_first) {
        momentum_buffer[i] = g;
      } else {
        d = momentum * momentum_buffer[i], x = (float)d;
        d = one_minus_dampening * g, y = (float)d;
        d = (double)x + y, momentum_buffer[i] = (float)d;
      }
      e = momentum_buffer[i];
      if (options->nesterov) {
        d = momentum * momentum_buffer[i], h = (float)d;
        d = (double)g + h, e = (float)d;
      }
    }
    d = lr * e, s = (float)d;
    d = p - s, master[i] = (float)d;
  }
}

void oracle_sgd_ema(int maximize, const oracle_scalars* scalars, const float* grad, float* master,
                    float* exp_avg, size_t numel) {
  const double beta1 = scalars->beta1, one_minus_beta1 = scalars->one_minus_beta1;
  const double lr = scalars->lr, weight_decay = scalars->weight_decay;
  double d;
  float a1, a2, s;
  size_t i;
  for (i = 0; i < numel; ++i) {
    const double p = master[i];
    const double g = seen_gradient(grad[i], maximize, scalars->has_decay, weight_decay, p);
    d = beta1 * exp_avg[i], a1 = (float)d;
    d = one_minus_beta1 * g, a2 = (float)d;
    d = (double)a1 + a2, exp_avg[i] = (float)d;
    d = lr * exp_avg[i], s = (float)d;
    d = p - s, master[i] = (float)d;
  }
}

void oracle_lion(int maximize, const oracle_scalars* scalars, const float* grad, float* master,
                 float* exp_avg, size_t numel) {
  const double beta1 = scalars->beta1, one_minus_beta1 = scalars->one_minus_beta1;
  const double beta2 = scalars->beta2, one_minus_beta2 = scalars->one_minus_beta2;
  const double lr = scalars->lr, lr_weight_decay = scalars->lr_weight_decay;
  double d;
  float a1, a2, c, e, a, w, u, b1, b2;
  size_t i;
  for (i = 0; i < numel; ++i) {
    const double p = master[i], m = exp_avg[i];
    const double g = maximize ? -grad[i] : grad[i]; /* flips only the sign bit */
    d = beta1 * m, a1 = (float)d;
    d = one_minus_beta1 * g, a2 = (float)d;
    d = (double)a1 + a2, c = (float)d;
    e = c; /* a zero or a NaN is its own sign */
    if (c > 0) e = 1;
    if (c < 0) e = -1;
    d = lr * e, a = (float)d;
    u = a;
    if (scalars->has_decay) {
      d = lr_weight_decay * p, w = (float)d;
      d = (double)a + w, u = (float)d;
    }
    d = p - u, master[i] = (float)d;
    d = beta2 * m, b1 = (float)d;
    d = one_minus_beta2 * g, b2 = (float)d;
    d = (double)b1 + b2, exp_avg[i] = (float)d;
  }
}

void oracle_lamb(int maximize, const oracle_scalars* scalars, float ratio, const float* grad,
                 float* master, float* exp_avg, float* exp_avg_sq, float* u, size_t numel) {
  const double beta1 = scalars->beta1, one_minus_beta1 = scalars->one_minus_beta1;
  const double beta2 = scalars->beta2, one_minus_beta2 = scalars->one_minus_beta2;
  const double root2 = scalars->sqrt_bias_correction2, step_size = scalars->step_size,
               eps = scalars->eps, lr_weight_decay = scalars->lr_weight_decay;
  double d;
  float a1, a2, h, b1, b2, s, r, denominator, q, a, w, p;
  size_t i;
  for (i = 0; i < numel; ++i) {
    const double g = maximize ? -grad[i] : grad[i]; /* flips only the sign bit */
    d = beta1 * exp_avg[i], a1 = (float)d;
    d = one_minus_beta1 * g, a2 = (float)d;
    d = (double)a1 + a2, exp_avg[i] = (float)d;
    d = g * g, h = (float)d;
    d = beta2 * exp_avg_sq[i], b1 = (float)d;
    d = one_minus_beta2 * h, b2 = (float)d;
    d = (double)b1 + b2, exp_avg_sq[i] = (float)d;
    d = sqrt(exp_avg_sq[i]), s = (float)d;
    d = (double)s / root2, r = (float)d;
    d = (double)r + eps, denominator = (float)d;
    d = (double)exp_avg[i] / denominator, q = (float)d;
    d = step_size * q, a = (float)d;
    if (scalars->has_decay) {
      d = lr_weight_decay * master[i], w = (float)d;
      d = (double)a + w, a = (float)d;
    }
    if (u) u[i] = a;
    d = (double)ratio * a, p = (float)d;
    d = (double)master[i] - p, master[i] = (float)d;
  }
}

float oracle_trust_ratio(float lr, double weight_norm, double update_norm) {
  double n, q;
  if (weight_norm == 0 || update_norm == 0) return 1;
  n = lr * weight_norm;
  q = n / update_norm;
  return (float)q;
}
