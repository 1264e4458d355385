/* The p-norm in 113-bit arithmetic, where the errors of 10^6 additions and powers stay below 2^-80. */

#include "oracle.h"

/* quadmath.h belongs to gcc; other compilers find the library but not the header. */
__extension__ typedef __float128 real;
real powq(real, real);
real sqrtq(real);

/* magnitude^p. Multiples of 1/4, which are most of what is asked, take roots and products: ten times faster. */
static real power(real magnitude, double p) {
  const double quarters = 4 * p;
  real root, result = 1;
  int k;
  if (quarters > 1024 || quarters != (int)quarters) return powq(magnitude, (real)p);
  k = (int)quarters;
  root = magnitude;
  if (k % 4 == 0) {
    k /= 4;
  } else {
    root = sqrtq(root);
    if (k % 2 == 0) {
      k /= 2;
    } else {
      root = sqrtq(root);
    }
  }
  for (; k > 0; k /= 2) {
    if (k % 2 == 1) result *= root;
    root *= root;
  }
  return result;
}

oracle_pair oracle_norm_p(const float* grad, size_t numel, double p) {
  real amax = 0, sum = 0, norm;
  oracle_pair pair;
  size_t i;
  for (i = 0; i < numel; ++i) {
    const real magnitude = grad[i] < 0 ? -(real)grad[i] : (real)grad[i];
    if (magnitude > amax) amax = magnitude;
  }
  for (i = 0; i < numel; ++i) {
    const real magnitude = grad[i] < 0 ? -(real)grad[i] : (real)grad[i];
    if (magnitude > 0) sum += power(magnitude / amax, p);
  }
  norm = amax * powq(sum, 1 / (real)p);
  pair.high = (double)norm;
  pair.low = (double)(norm - (real)pair.high);
  return pair;
}
