/* The global norm of the oracle (R12): a big integer with immediate carries, and an integer square root.
 */

#include <math.h>
#include <string.h>

#include "oracle.h"

__extension__ typedef unsigned __int128 uint128;

enum { lowest_weight = 1088, limb_offset = (1088 - 352) / 32 };

/* Adds value * 2^(32 * position - 1088). Only for 53-bit chunk values and 64-bit limbs below 2^352: the
   top digits of the array stay zero, so a carry never exceeds it. */
static void add_at(oracle_sum* sum, int position, uint128 value) {
  for (; value != 0; ++position) {
    value += sum->digit[position];
    sum->digit[position] = (uint32_t)value;
    value >>= 32;
  }
}

/* An fp64 addition or square is the operation of the contract itself: there is nothing to cast. */
static double chunk_value(const float* chunk, size_t numel) {
  double lane[32];
  size_t l, s, w;
  for (l = 0; l < 32; ++l) {
    lane[l] = 0;
    for (s = 0; s < 32; ++s) {
      const double x = 32 * s + l < numel ? (double)chunk[32 * s + l] : 0.0;
      const double square = x * x; /* exact, 48 bits */
      lane[l] = lane[l] + square;
    }
  }
  for (w = 16; w >= 1; w /= 2) {
    for (l = 0; l < w; ++l) lane[l] = lane[l] + lane[l + w];
  }
  return lane[0];
}

static void deposit(oracle_sum* sum, double value) {
  int exponent;
  double mantissa;
  if (value != value) {
    ++sum->nan_count;
  } else if (value == (double)INFINITY) {
    ++sum->inf_count;
  } else if (value != 0) {
    mantissa =
        ldexp(frexp(value, &exponent), 53); /* an integer: value = mantissa * 2^(exponent - 53) */
    exponent = exponent - 53 + lowest_weight;
    add_at(sum, exponent / 32, (uint128)(uint64_t)mantissa << exponent % 32);
  }
}

void oracle_norm_clear(oracle_sum* sum) { memset(sum, 0, sizeof *sum); }

void oracle_norm_add(oracle_sum* sum, const float* tensor, size_t numel) {
  size_t first;
  for (first = 0; first < numel; first += 1024) {
    deposit(sum, chunk_value(tensor + first, numel - first < 1024 ? numel - first : 1024));
  }
}

void oracle_norm_add_limbs(oracle_sum* sum, const uint64_t* limbs) {
  int i;
  for (i = 0; i < oracle_limbs; ++i) add_at(sum, limb_offset + i, limbs[i]);
}

void oracle_norm_limbs(const oracle_sum* sum, uint64_t* limbs) {
  int i;
  for (i = 0; i < oracle_limbs; ++i) limbs[i] = sum->digit[limb_offset + i];
  limbs[oracle_limbs - 1] += (uint64_t)sum->digit[limb_offset + oracle_limbs] << 32;
}

static int bit_at(const oracle_sum* sum, int position) {
  return (int)(sum->digit[position / 32] >> position % 32 & 1U);
}

/* The sum, not zero, rounded to mantissa * 2^exponent with 2^52 <= mantissa < 2^53: bit by bit, ties to even.
 */
static uint64_t round_to_53_bits(const oracle_sum* sum, int* exponent) {
  uint64_t mantissa = 0;
  int top = 32 * oracle_digits - 1;
  int below_half = 0; /* is any bit below the first dropped one set? */
  int first_dropped, i;
  while (!bit_at(sum, top)) --top;
  for (i = top; i > top - 53; --i)
    mantissa = 2 * mantissa + (i >= 0 ? (uint64_t)bit_at(sum, i) : 0);
  *exponent = top - 52 - lowest_weight;
  first_dropped = top - 53;
  if (first_dropped < 0 || !bit_at(sum, first_dropped)) return mantissa;
  for (i = 0; i < first_dropped; ++i) below_half |= bit_at(sum, i);
  if (below_half || mantissa % 2 == 1) ++mantissa;
  if (mantissa == (uint64_t)1 << 53) {
    mantissa /= 2;
    ++*exponent;
  }
  return mantissa;
}

/* The correctly rounded root by integer arithmetic alone, without a library. */
static double rounded_root(uint64_t mantissa, int exponent) {
  uint128 radicand = mantissa;
  uint128 root = 0;
  int bit;
  /* 52 or 53 more bits, so that the exponent is even and the radicand has 105 or 106 bits, its root 53. */
  const int more = exponent % 2 == 0 ? 52 : 53;
  radicand <<= more;
  exponent -= more;
  for (bit = 52; bit >= 0; --bit) {
    const uint128 candidate = root + ((uint128)1 << bit);
    if (candidate * candidate <= radicand) root = candidate;
  }
  /* root <= exact < root + 1. Above root + 1/2 means radicand > root^2 + root + 1/4; equality is impossible.
   */
  if (radicand - root * root > root) ++root;
  return ldexp((double)(uint64_t)root, exponent / 2);
}

static int is_zero(const oracle_sum* sum) {
  uint32_t any = 0;
  int i;
  for (i = 0; i < oracle_digits; ++i) any |= sum->digit[i];
  return any == 0;
}

double oracle_norm_finish(const oracle_sum* sum) {
  int exponent;
  uint64_t mantissa;
  if (sum->nan_count > 0) return (double)NAN;
  if (sum->inf_count > 0) return (double)INFINITY;
  if (is_zero(sum)) return 0;
  mantissa = round_to_53_bits(sum, &exponent);
  return rounded_root(mantissa, exponent);
}

double oracle_norm_value(const oracle_sum* sum) {
  int exponent;
  uint64_t mantissa;
  if (sum->nan_count > 0) return (double)NAN;
  if (sum->inf_count > 0) return (double)INFINITY;
  if (is_zero(sum)) return 0;
  mantissa = round_to_53_bits(sum, &exponent);
  return ldexp((double)mantissa, exponent);
}

double oracle_norm(const float* const* tensors, const size_t* numels, size_t count) {
  oracle_sum sum;
  size_t i;
  oracle_norm_clear(&sum);
  for (i = 0; i < count; ++i) oracle_norm_add(&sum, tensors[i], numels[i]);
  return oracle_norm_finish(&sum);
}
