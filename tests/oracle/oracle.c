/* Element-wise operations of the oracle; the update rules are in oracle_update.c.

   Every fp32 operation is computed in double on exactly widened operands and cast to float once. That makes
   two roundings where the contract asks for one, so each operation needs its reason. Rounding twice can only
   differ from rounding once if the exact result is not a midpoint but its double is: a number halfway between
   two neighbouring floats (the overflow threshold 2^128 - 2^103 is one of them). A midpoint has at most 25
   significant bits: 25 in the normal range, at most 24 in the subnormal range, where it is an odd multiple of
   2^-150. No intermediate double is subnormal: every non-zero result below is between 2^-298 and 2^277.

   Product. 24 + 24 bits fit into 53: the double is exact and the cast the only rounding, subnormal or not.

   Sum and difference. A sum below 2^-125 is a multiple of 2^-149 with at most 24 bits, so it is exact in
   double and, if subnormal, even in float. Otherwise let |a| >= |b| and 2^E <= |a| < 2^(E+1). If the double
   is not exact, b has bits below 2^(E-51), so |b| < 2^(E-28). As a is a float, every midpoint is 2^(E-25) or
   more away from a, hence more than 2^(E-26) away from a + b, while the double is at most 2^(E-52) off.

   Quotient. Let a, b be A * 2^i, B * 2^j with 24-bit A, B (subnormals shifted up), and the midpoint K * 2^k
   with an odd K of n <= 25 bits. If a / b is nearly but not K * 2^k, then a and K * B * 2^(j+k) differ, and
   both are multiples of 2^(j+k-1): they are about equal, A has 24 bits and K * B at least n + 23. So a / b
   misses the midpoint by 2^(k-1) / B > 2^(k-25), which is more than 2^(-25-n) >= 2^-50 of it; a double is at
   most 2^-53 off. This holds for midpoints of any length up to 25 bits, so it covers the subnormal range,
   which the usual theorem (53 >= 2 * 24 + 2) does not cover.

   Square root. The root of the smallest float is above 2^-75: never subnormal. A midpoint is K * 2^k with an
   odd K of 25 bits; K * K is odd and has at least 49 bits, so no float is its square. A float about as large
   as K * K * 2^2k is a multiple of 2^2k; so the root misses the midpoint by 2^2k / (root + midpoint) >
   2^(k-27), while a double is at most 2^(k-29) off.

   Signed zeros, infinities and NaN are the same in double as in float. The double is stored in a variable
   before it is cast: given (float)((double)a * (double)b), gcc shortens the
   expression to one float operation even at -O0 (by the same theorem), and the oracle would no longer be
   an independent computation. */

#include "oracle.h"

#include <float.h>

_Static_assert(FLT_EVAL_METHOD == 0,
               "an intermediate result with more precision would add roundings");
_Static_assert(FLT_MANT_DIG == 24 && DBL_MANT_DIG == 53 && sizeof(float) == 4,
               "binary32 and binary64 (R1)");

int oracle_unscale(float inv_scale, const float* grad_sum, float* unscaled_grad, size_t numel) {
  const double scale = inv_scale;
  int found_inf = 0;
  size_t i;
  for (i = 0; i < numel; ++i) {
    const double product = scale * (double)grad_sum[i];
    const float value = (float)product;
    if (!(value >= -FLT_MAX && value <= FLT_MAX))
      found_inf = 1; /* checked after the product, and NaN counts */
    unscaled_grad[i] = value;
  }
  return found_inf;
}

int oracle_clip_coef(double grad_norm, int has_max_norm, double max_norm, float* clip_coef) {
  double shifted;
  double quotient;
  if (has_max_norm && !(max_norm >= 0 && max_norm <= DBL_MAX)) return 0; /* NaN is outside */
  *clip_coef = 1;
  if (!has_max_norm || max_norm == 0) return 1; /* off, for any norm */
  shifted = grad_norm + 1e-6;
  quotient = max_norm / shifted;
  if (quotient != quotient || quotient < 1) *clip_coef = (float)quotient;
  return 1;
}

void oracle_clip(float clip_coef, const float* unscaled_grad, float* grad, size_t numel) {
  const double coef = clip_coef;
  size_t i;
  for (i = 0; i < numel; ++i) {
    const double product = coef * (double)unscaled_grad[i];
    grad[i] = (float)product;
  }
}

/* The two comparisons of R6, written out: NaN fails both and keeps its bits, and so does -0. */
void oracle_clip_value(float clip_value, float* grad, size_t numel) {
  size_t i;
  for (i = 0; i < numel; ++i) {
    if (grad[i] > clip_value) {
      grad[i] = clip_value;
    } else if (grad[i] < -clip_value) {
      grad[i] = -clip_value;
    }
  }
}

void oracle_add(const float* left, const float* right, float* sum, size_t numel) {
  size_t i;
  for (i = 0; i < numel; ++i) {
    const double d = (double)left[i] + right[i];
    sum[i] = (float)d;
  }
}

/* R11, level by level: scratch holds the nodes (level, 0..nodes-1) of one element. */
void oracle_tree(const float* const* leaves, size_t count, float* scratch, float* sum,
                 size_t numel) {
  size_t i, k, nodes;
  for (i = 0; i < numel; ++i) {
    for (k = 0; k < count; ++k) scratch[k] = leaves[k][i];
    for (nodes = count; nodes > 1; nodes = (nodes + 1) / 2) {
      for (k = 0; 2 * k + 1 < nodes; ++k) {
        const double d = (double)scratch[2 * k] + scratch[2 * k + 1];
        scratch[k] = (float)d;
      }
      if (nodes % 2 == 1)
        scratch[nodes / 2] = scratch[nodes - 1]; /* nothing on its right: the bits move up */
    }
    sum[i] = scratch[0];
  }
}
