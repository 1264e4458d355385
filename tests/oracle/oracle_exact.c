/* The forms exact, one and inf of the oracle (R12): schoolbook addition, byte by byte. */

#include <math.h>
#include <string.h>

#include "oracle.h"

enum { lowest_weight = 352 };

void oracle_exact_clear(oracle_exact* sum) { memset(sum, 0, sizeof *sum); }

/* Adds value * 2^(position - 352). */
static void add_at(oracle_exact* sum, int position, uint64_t value) {
  int i = position / 8;
  for (value <<= position % 8; value != 0; ++i) {
    value += sum->byte[i];
    sum->byte[i] = (unsigned char)(value % 256);
    value /= 256;
  }
}

/* |x| = mantissa * 2^exponent with a mantissa of exactly 24 bits. Returns 0 if there is nothing to add. */
static int take_apart(oracle_exact* sum, float x, uint64_t* mantissa, int* exponent) {
  if (x != x) {
    ++sum->nan_count;
    return 0;
  }
  if (isinf(x)) {
    ++sum->inf_count;
    return 0;
  }
  if (x == 0) return 0;
  *mantissa = (uint64_t)ldexp(frexp(fabs((double)x), exponent), 24);
  *exponent -= 24;
  return 1;
}

void oracle_exact_add_squares(oracle_exact* sum, const float* grad, size_t numel) {
  uint64_t mantissa;
  int exponent;
  size_t i;
  for (i = 0; i < numel; ++i) {
    if (take_apart(sum, grad[i], &mantissa, &exponent))
      add_at(sum, 2 * exponent + lowest_weight, mantissa * mantissa);
  }
}

void oracle_exact_add_magnitudes(oracle_exact* sum, const float* grad, size_t numel) {
  uint64_t mantissa;
  int exponent;
  size_t i;
  for (i = 0; i < numel; ++i) {
    if (take_apart(sum, grad[i], &mantissa, &exponent))
      add_at(sum, exponent + lowest_weight, mantissa);
  }
}

void oracle_exact_limbs(const oracle_exact* sum, uint64_t* limbs) {
  int i;
  memset(limbs, 0, oracle_limbs * sizeof *limbs);
  /* The part above the last limb stays in it. */
  for (i = 0; i < oracle_bytes; ++i) {
    const int limb = i / 4 < oracle_limbs ? i / 4 : oracle_limbs - 1;
    const int place = i - 4 * limb;
    if (place < 8) limbs[limb] += (uint64_t)sum->byte[i] << 8 * place;
  }
}

/* The eight highest bytes in use with everything below joined into the last bit: at least 57 bits, so that
   the conversion to double rounds as for the whole number, once. */
double oracle_exact_value(const oracle_exact* sum) {
  int top = oracle_bytes - 1, i;
  uint64_t leading = 0;
  if (sum->nan_count > 0) return (double)NAN;
  if (sum->inf_count > 0) return (double)INFINITY;
  while (top > 0 && sum->byte[top] == 0) --top;
  for (i = 0; i < 8; ++i) leading = leading * 256 + (top - i >= 0 ? sum->byte[top - i] : 0);
  for (i = top - 8; i >= 0; --i) {
    if (sum->byte[i] != 0) leading |= 1;
  }
  return ldexp((double)leading, 8 * (top - 7) - lowest_weight);
}

/* One fp64 operation of the contract itself; oracle_norm_finish takes its root with integers. */
double oracle_exact_norm(const oracle_exact* sum) { return sqrt(oracle_exact_value(sum)); }

uint32_t oracle_max_bits(const float* grad, size_t numel, uint32_t amax) {
  size_t i;
  for (i = 0; i < numel; ++i) {
    uint32_t bits;
    memcpy(&bits, &grad[i], sizeof bits);
    bits %= 0x80000000U;
    if (grad[i] != grad[i]) bits = 0x7FFFFFFFU;
    if (bits > amax) amax = bits;
  }
  return amax;
}

/* x - x is 0 only for finite numbers. */
uint64_t oracle_count_nonfinite(const float* grad, size_t numel) {
  uint64_t count = 0;
  size_t i;
  for (i = 0; i < numel; ++i) count += grad[i] - grad[i] != 0 ? 1 : 0;
  return count;
}

uint64_t oracle_count_zeros(const float* grad, size_t numel) {
  uint64_t count = 0;
  size_t i;
  for (i = 0; i < numel; ++i) count += grad[i] == 0 ? 1 : 0;
  return count;
}

double oracle_max_finish(uint32_t amax) {
  float value;
  if (amax > 0x7F800000U) return (double)NAN;
  memcpy(&value, &amax, sizeof value);
  return (double)value;
}
