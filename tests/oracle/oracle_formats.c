/* Exponents of block scales, the split of a master, tensors in blocks and their scales (R8, R22). Products and
   quotients of floats are made in double and rounded once more: a product of two floats is exact there, and a quotient
   of two floats is never so near to the middle between two floats that the second rounding sees another side. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "oracle.h"

static uint32_t bits_of_float(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static float float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* The exponent field says it, one more if there is a fraction; of a subnormal number the fraction says it alone. */
static uint8_t exponent_above(float value) {
  const uint32_t magnitude = bits_of_float(value) & 0x7FFFFFFFu;
  const uint32_t field = magnitude >> 23, fraction = magnitude & 0x7FFFFFu;
  if (field == 255) return fraction != 0 ? 255 : 254;
  if (field == 254) return 254;
  if (field == 0) return fraction > 0x400000u ? 1 : 0;
  return (uint8_t)(fraction != 0 ? field + 1 : field);
}

static double power_of_two(int exponent) {
  double power = 1;
  for (; exponent > 0; --exponent) power *= 2;
  for (; exponent < 0; ++exponent) power /= 2;
  return power;
}

void oracle_cast_e8m0(const float* source, uint8_t* target, size_t numel) {
  size_t i;
  for (i = 0; i < numel; ++i) target[i] = exponent_above(source[i]);
}

void oracle_widen_e8m0(const uint8_t* source, float* target, size_t numel) {
  size_t i;
  for (i = 0; i < numel; ++i)
    target[i] = source[i] == 255 ? (float)NAN : (float)power_of_two(source[i] - 127);
}

void oracle_split_master(int look_for_nan, const float* master, uint16_t* param, uint16_t* remainder,
                         size_t numel) {
  size_t i;
  for (i = 0; i < numel; ++i) {
    const uint32_t b = bits_of_float(master[i]);
    const uint32_t upper = b / 65536, lower = b % 65536;
    param[i] = (uint16_t)(lower < 32768 ? upper : upper + 1);
    remainder[i] = (uint16_t)lower;
    if (look_for_nan && master[i] != master[i]) {
      param[i] = 0x7FFF;
      remainder[i] = 0;
    }
  }
}

void oracle_join_master(int look_for_nan, const uint16_t* param, const uint16_t* remainder, float* master,
                        size_t numel) {
  size_t i;
  for (i = 0; i < numel; ++i) {
    const uint32_t upper = remainder[i] < 32768 ? param[i] : param[i] + 65535u;
    master[i] = float_of_bits(upper % 65536 * 65536 + remainder[i]);
    if (look_for_nan && param[i] % 32768 > 0x7F80) master[i] = (float)NAN;
  }
}

/* The blocks before this row of blocks, and those before it in its row. */
static size_t block_of(const oracle_grid* grid, int64_t element) {
  const int64_t across = (grid->columns - 1) / grid->block_columns + 1;
  const int64_t down = element / grid->columns / grid->block_rows;
  return (size_t)(down * across + element % grid->columns / grid->block_columns);
}

static float through(int through_bf16, float value) {
  uint16_t narrow;
  if (!through_bf16) return value;
  oracle_cast_bf16(&value, &narrow, 1);
  oracle_widen_bf16(&narrow, &value, 1);
  return value;
}

void oracle_block_amax(const oracle_grid* grid, int through_bf16, int64_t first, const float* values,
                       uint32_t* amax, size_t numel) {
  size_t i;
  for (i = 0; i < numel; ++i) {
    const float value = through(through_bf16, values[i]);
    const uint32_t magnitude = value != value ? 0x7FFFFFFFu : bits_of_float(value) & 0x7FFFFFFFu;
    uint32_t* here = amax + block_of(grid, first + (int64_t)i);
    if (magnitude > *here) *here = magnitude;
  }
}

void oracle_block_quantize(const oracle_grid* grid, int through_bf16, int nonfinite, int is_e5m2,
                           int64_t first, const float* values, const float* scale, uint8_t* target,
                           size_t numel) {
  float* scaled = malloc((numel + 1) * sizeof *scaled);
  size_t i;
  if (scaled == NULL) abort();
  for (i = 0; i < numel; ++i) {
    const double factor = scale[block_of(grid, first + (int64_t)i)];
    scaled[i] = (float)(through(through_bf16, values[i]) * factor);
  }
  if (is_e5m2 && nonfinite) oracle_cast_e5m2_nonfinite(scaled, target, numel);
  if (is_e5m2 && !nonfinite) oracle_cast_e5m2(scaled, target, numel);
  if (!is_e5m2 && nonfinite) oracle_cast_e4m3_nonfinite(scaled, target, numel);
  if (!is_e5m2 && !nonfinite) oracle_cast_e4m3(scaled, target, numel);
  free(scaled);
}

void oracle_block_dequantize(const oracle_grid* grid, int is_e5m2, int64_t first, const uint8_t* source,
                             const float* scale_inv, float* target, size_t numel) {
  size_t i;
  if (is_e5m2) oracle_widen_e5m2(source, target, numel);
  if (!is_e5m2) oracle_widen_e4m3(source, target, numel);
  for (i = 0; i < numel; ++i) {
    target[i] = (float)(target[i] * (double)scale_inv[block_of(grid, first + (int64_t)i)]);
  }
}

static double top_of(int is_e5m2) { return is_e5m2 ? 57344 : 448; }

static double inverse(double value) { return (float)(1 / value); }

/* What an amax stands for; 0 also where it stands for nothing that a scale can be made of. */
static double usable(uint32_t amax) { return amax < 0x7F800000u ? (double)float_of_bits(amax) : 0; }

/* The quotient as fp32 has it, but nothing above its largest number. */
static float limited(double quotient) {
  const float largest = float_of_bits(0x7F7FFFFFu);
  const float rounded = (float)quotient;
  return isinf(rounded) ? largest : rounded;
}

void oracle_current_scales(int is_e5m2, float epsilon, int power_of_two_only, const uint32_t* amax,
                           float* scale, float* scale_inv, size_t numel) {
  size_t i;
  for (i = 0; i < numel; ++i) {
    double a = usable(amax[i]);
    int exponent;
    if (amax[i] < 0x7F800000u && a < epsilon) a = epsilon;
    scale[i] = a == 0 ? 1 : limited(top_of(is_e5m2) / a);
    if (power_of_two_only) {
      (void)frexp(scale[i], &exponent);
      scale[i] = (float)power_of_two(exponent - 1);
    }
    scale_inv[i] = (float)inverse(scale[i]);
  }
}

void oracle_mxfp8_scales(int is_e5m2, const uint32_t* amax, uint8_t* exponent, float* scale, size_t numel) {
  const double c = inverse(top_of(is_e5m2));
  size_t i;
  for (i = 0; i < numel; ++i) {
    if (amax[i] > 0x7F800000u) {
      exponent[i] = 255;
      scale[i] = (float)NAN;
      continue;
    }
    exponent[i] = exponent_above((float)(float_of_bits(amax[i]) * c));
    scale[i] = (float)power_of_two(127 - exponent[i]);
  }
}

void oracle_delayed_scale(int is_e5m2, int margin, int64_t slots, int most_recent, int roll,
                          uint32_t* history, float* scale, float* scale_inv) {
  const uint32_t collected = history[0];
  uint32_t chosen = collected;
  int64_t k;
  if (collected != 0 || roll) {
    for (k = 1; k < slots && !most_recent; ++k) {
      if (history[k] > chosen) chosen = history[k];
    }
    if (usable(chosen) > 0) {
      *scale = limited(top_of(is_e5m2) * power_of_two(-margin) / usable(chosen));
      if (*scale < power_of_two(-126)) *scale = (float)power_of_two(-126);
    }
    for (k = 1; k + 1 < slots; ++k) history[k] = history[k + 1];
    if (slots > 1) history[slots - 1] = collected;
    history[0] = 0;
  }
  *scale_inv = (float)inverse(*scale);
}
