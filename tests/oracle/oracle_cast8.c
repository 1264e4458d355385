/* 8-bit casts of the oracle (R8): a table has all values of the format, computed from its definition, and a
   float is rounded to the nearest of them. The bits of a float are not used. */

#include <math.h>

#include "oracle.h"

typedef struct {
  int fraction_bits;
  int bias;
  int largest; /* code of the largest finite value; values up to it are in increasing order */
  double value[128];
} format;

/* A positive code is field * 2^fraction_bits + fraction: (1 + fraction / 2^fraction_bits) * 2^(field - bias),
   or, with field 0, fraction / 2^fraction_bits * 2^(1 - bias). */
static double value_of(const format* f, int code) {
  const int per_field = 1 << f->fraction_bits;
  const int field = code / per_field;
  const int fraction = code % per_field;
  if (field == 0) return ldexp(fraction, 1 - f->bias - f->fraction_bits);
  return ldexp(per_field + fraction, field - f->bias - f->fraction_bits);
}

static format make_format(int fraction_bits, int bias, int largest) {
  format f = {0};
  int code;
  f.fraction_bits = fraction_bits;
  f.bias = bias;
  f.largest = largest;
  for (code = 0; code <= largest; ++code) f.value[code] = value_of(&f, code);
  return f;
}

static format e4m3(void) { return make_format(3, 7, 0x7E); }
static format e5m2(void) { return make_format(2, 15, 0x7B); }

static uint8_t nearest(const format* f, float value) {
  const double magnitude = fabs((double)value);
  const int sign = signbit(value) ? 0x80 : 0;
  int low = 0, high = f->largest;
  double midpoint;
  if (value != value) return 0x7F;                                      /* R9 */
  if (magnitude >= f->value[high]) return (uint8_t)(sign + f->largest); /* saturates */
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (f->value[middle] <= magnitude) {
      low = middle;
    } else {
      high = middle;
    }
  }
  /* A midpoint has one bit more than a value, so it is exact; neighbouring codes alternate between even and odd, and
     even codes are the ones with an even last fraction bit. */
  midpoint = (f->value[low] + f->value[high]) / 2;
  if (magnitude > midpoint || (magnitude == midpoint && low % 2 == 1)) low = high;
  return (uint8_t)(sign + low);
}

void oracle_cast_e4m3(const float* source, uint8_t* target, size_t numel) {
  const format f = e4m3();
  size_t i;
  for (i = 0; i < numel; ++i) target[i] = nearest(&f, source[i]);
}

/* Overflow by the name `nonfinite`: the value after the largest is the next one with unlimited exponents; magnitudes
   nearer to it, or half-way and even there, get `beyond`. */
static uint8_t nearest_or(const format* f, float value, int beyond) {
  const double next = value_of(f, f->largest + 1);
  const double midpoint = (f->value[f->largest] + next) / 2;
  const double magnitude = fabs((double)value);
  if (magnitude > midpoint || (magnitude == midpoint && f->largest % 2 == 1)) {
    return (uint8_t)((signbit(value) ? 0x80 : 0) + beyond);
  }
  return nearest(f, value);
}

void oracle_cast_e4m3_nonfinite(const float* source, uint8_t* target, size_t numel) {
  const format f = e4m3();
  size_t i;
  for (i = 0; i < numel; ++i) target[i] = nearest_or(&f, source[i], 0x7F);
}

void oracle_cast_e5m2_nonfinite(const float* source, uint8_t* target, size_t numel) {
  const format f = e5m2();
  size_t i;
  for (i = 0; i < numel; ++i) target[i] = nearest_or(&f, source[i], 0x7C);
}

void oracle_cast_e5m2(const float* source, uint8_t* target, size_t numel) {
  const format f = e5m2();
  size_t i;
  for (i = 0; i < numel; ++i) target[i] = nearest(&f, source[i]);
}

static float widened(const format* f, uint8_t code, int has_infinity) {
  const int magnitude = code % 0x80;
  double value;
  if (magnitude <= f->largest) {
    value = f->value[magnitude];
  } else if (has_infinity && magnitude == f->largest + 1) {
    value = INFINITY;
  } else {
    return (float)NAN;
  }
  return (float)(code >= 0x80 ? -value : value);
}

void oracle_widen_e4m3(const uint8_t* source, float* target, size_t numel) {
  const format f = e4m3();
  size_t i;
  for (i = 0; i < numel; ++i) target[i] = widened(&f, source[i], 0);
}

void oracle_widen_e5m2(const uint8_t* source, float* target, size_t numel) {
  const format f = e5m2();
  size_t i;
  for (i = 0; i < numel; ++i) target[i] = widened(&f, source[i], 1);
}

/* The least power of two with a code that is not below the magnitude. */
static uint8_t exponent_above(float value) {
  const double magnitude = fabs((double)value);
  int exponent;
  const int is_power = frexp(magnitude, &exponent) == 0.5;
  if (value != value) return 255;
  if (magnitude > ldexp(1, 127)) return 254;
  if (magnitude <= ldexp(1, -127)) return 0;
  return (uint8_t)(exponent + (is_power ? 126 : 127));
}

void oracle_cast_e8m0(const float* source, uint8_t* target, size_t numel) {
  size_t i;
  for (i = 0; i < numel; ++i) target[i] = exponent_above(source[i]);
}

void oracle_widen_e8m0(const uint8_t* source, float* target, size_t numel) {
  size_t i;
  for (i = 0; i < numel; ++i)
    target[i] = source[i] == 255 ? (float)NAN : (float)ldexp(1, source[i] - 127);
}
