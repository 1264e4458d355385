/* The p-norm in 113-bit arithmetic, where the errors of 10^6 additions and powers stay below 2^-80. */

#include "oracle.h"

/* quadmath.h belongs to gcc; other compilers find the library but not the header. */
__extension__ typedef __float128 real;
real powq(real, real);

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
    if (magnitude > 0) sum += powq(magnitude / amax, (real)p);
  }
  norm = amax * powq(sum, 1 / (real)p);
  pair.high = (double)norm;
  pair.low = (double)(norm - (real)pair.high);
  return pair;
}
