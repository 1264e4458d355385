/* Casts of the oracle (R8): decode to an integer times a power of two, divide with remainder, encode. */

#include <math.h>
#include <string.h>

#include "oracle.h"

/* fraction_bits: 7 or 10. min_exponent: -126 or -14, of the smallest normal number. infinity: its bit
 * pattern. */
static uint16_t to_16_bit(float value, int fraction_bits, int min_exponent, uint32_t infinity) {
  uint32_t bits, sign, magnitude, mantissa, quotient, remainder, half, encoded;
  int exponent, shift, top;
  memcpy(&bits, &value, sizeof bits);
  sign = bits / 0x80000000U * 0x8000U;
  magnitude = bits % 0x80000000U;
  if (magnitude > 0x7F800000U) return 0x7FFF; /* R9 */
  if (magnitude == 0x7F800000U) return (uint16_t)(sign + infinity);

  /* |value| = mantissa * 2^exponent */
  exponent = (int)(magnitude / 0x800000U) - 150;
  mantissa = magnitude % 0x800000U;
  if (exponent == -150) {
    exponent = -149;
  } else {
    mantissa += 0x800000U;
  }
  if (mantissa == 0) return (uint16_t)sign;

  /* top = floor(log2 |value|), or the smallest normal exponent of the target if that is larger; the spacing
     of the target there is 2^(top - fraction_bits). The shift is at least 13. */
  for (top = 23; mantissa >> top == 0;) --top;
  top += exponent;
  if (top < min_exponent) top = min_exponent;
  shift = top - fraction_bits - exponent;
  if (shift > 25) return (uint16_t)sign; /* mantissa < 2^24 is less than half of a unit */
  quotient = mantissa / (1U << shift);
  remainder = mantissa % (1U << shift);
  half = 1U << (shift - 1);
  if (remainder > half || (remainder == half && quotient % 2 == 1)) ++quotient;

  /* A normal quotient is 2^fraction_bits or more, and a carry to the next binade makes the next exponent
   * field. */
  encoded = quotient;
  if (quotient >= 1U << fraction_bits) encoded += (uint32_t)(top - min_exponent) << fraction_bits;
  if (encoded > infinity) encoded = infinity;
  return (uint16_t)(sign + encoded);
}

static float to_32_bit(uint16_t bits, int fraction_bits, int min_exponent, uint32_t infinity) {
  const uint32_t magnitude = bits % 0x8000U;
  const uint32_t field = magnitude >> fraction_bits;
  double value = magnitude % (1U << fraction_bits);
  if (magnitude > infinity) return (float)NAN;
  if (magnitude == infinity) {
    value = INFINITY;
  } else if (field == 0) {
    value = ldexp(value, min_exponent - fraction_bits);
  } else {
    value = ldexp(value + (1U << fraction_bits), (int)field - 1 + min_exponent - fraction_bits);
  }
  return (float)(bits >= 0x8000U ? -value : value);
}

void oracle_cast_bf16(const float* source, uint16_t* target, size_t numel) {
  size_t i;
  for (i = 0; i < numel; ++i) target[i] = to_16_bit(source[i], 7, -126, 0x7F80);
}

void oracle_cast_fp16(const float* source, uint16_t* target, size_t numel) {
  size_t i;
  for (i = 0; i < numel; ++i) target[i] = to_16_bit(source[i], 10, -14, 0x7C00);
}

void oracle_widen_bf16(const uint16_t* source, float* target, size_t numel) {
  size_t i;
  for (i = 0; i < numel; ++i) target[i] = to_32_bit(source[i], 7, -126, 0x7F80);
}

void oracle_widen_fp16(const uint16_t* source, float* target, size_t numel) {
  size_t i;
  for (i = 0; i < numel; ++i) target[i] = to_32_bit(source[i], 10, -14, 0x7C00);
}
