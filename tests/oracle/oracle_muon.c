/* Matrix products (R27) and the rule muon (R28) of the oracle. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "oracle.h"

static float rounded(int bf16, float value) {
  uint16_t narrow;
  if (!bf16) return value;
  oracle_cast_bf16(&value, &narrow, 1);
  oracle_widen_bf16(&narrow, &value, 1);
  return value;
}

void oracle_matrix_product(int bf16, size_t rows, size_t columns, size_t inner, const float* left,
                           const float* right, float* product) {
  size_t i, j, b, q;
  for (i = 0; i < rows; ++i) {
    for (j = 0; j < columns; ++j) {
      float s[8];
      for (b = 0; b < 8; ++b) {
        s[b] = 0;
        for (q = inner * b / 8; q < inner * (b + 1) / 8; ++q)
          s[b] =
              fmaf(rounded(bf16, left[i * inner + q]), rounded(bf16, right[j * inner + q]), s[b]);
      }
      for (b = 0; b < 8; b += 2) s[b] = s[b] + s[b + 1];
      for (b = 0; b < 8; b += 4) s[b] = s[b] + s[b + 2];
      product[i * columns + j] = s[0] + s[4];
    }
  }
}

static void transpose(size_t rows, size_t columns, const float* from, float* to) {
  size_t i, j;
  for (i = 0; i < rows; ++i)
    for (j = 0; j < columns; ++j) to[j * rows + i] = from[i * columns + j];
}

/* One polynomial of X [rows, columns], rows <= columns. A, S: [rows, rows]. P, T: as X. */
static void step(const oracle_newton_schulz_options* o, const double* polynomial, size_t rows,
                 size_t columns, float* X, float* A, float* S, float* P, float* T) {
  const float a = (float)polynomial[0], b = (float)polynomial[1], c = (float)polynomial[2];
  const int bf16 = o->bf16, keeps = o->form == oracle_form_fused;
  const size_t square = rows * rows, all = rows * columns;
  size_t i;
  float u, v, w;
  oracle_matrix_product(bf16, rows, rows, columns, X, X, A);
  for (i = 0; i < square; ++i) A[i] = rounded(bf16, A[i]);
  if (o->form == oracle_form_scaled_factor) {
    float* F = malloc((square + 1) * sizeof(float));
    for (i = 0; i < square; ++i) w = c * A[i], F[i] = rounded(bf16, w);
    oracle_matrix_product(bf16, rows, rows, rows, F, A, S);
    free(F);
  } else {
    oracle_matrix_product(bf16, rows, rows, rows, A, A, S);
  }
  for (i = 0; i < square; ++i) {
    u = b * A[i];
    v = keeps ? S[i] : rounded(bf16, S[i]);
    if (!keeps) u = rounded(bf16, u);
    if (o->form != oracle_form_scaled_factor) v = c * v;
    if (o->form == oracle_form_scaled_product) v = rounded(bf16, v);
    w = u + v;
    S[i] = rounded(bf16, w); /* B */
  }
  transpose(rows, columns, X, T);
  oracle_matrix_product(bf16, rows, columns, rows, S, T, P);
  for (i = 0; i < all; ++i) {
    w = a * X[i];
    v = P[i];
    if (!keeps) w = rounded(bf16, w), v = rounded(bf16, v);
    u = w + v;
    X[i] = rounded(bf16, u);
  }
}

void oracle_newton_schulz(const oracle_newton_schulz_options* options, size_t rows, size_t columns,
                          const float* matrix, float* orthogonal) {
  const size_t all = rows * columns, low = rows < columns ? rows : columns;
  float* X = malloc((all + 1) * sizeof(float));
  float* E = malloc((all + 1) * sizeof(float));
  float* P = malloc((all + 1) * sizeof(float));
  float* T = malloc((all + 1) * sizeof(float));
  float* A = malloc((low * low + 1) * sizeof(float));
  float* S = malloc((low * low + 1) * sizeof(float));
  oracle_exact sum;
  double norm, divisor, q;
  size_t i;
  int k;
  for (i = 0; i < all; ++i)
    E[i] = options->rounds_first ? rounded(options->bf16, matrix[i]) : matrix[i];
  oracle_exact_clear(&sum);
  oracle_exact_add_squares(&sum, E, all);
  norm = oracle_exact_norm(&sum);
  divisor = options->adds_eps ? norm + options->eps : norm > options->eps ? norm : options->eps;
  if (norm != norm) divisor = norm;
  for (i = 0; i < all; ++i) {
    q = E[i] / divisor;
    E[i] = rounded(options->bf16, (float)q);
  }
  if (rows > columns)
    transpose(rows, columns, E, X);
  else
    memcpy(X, E, all * sizeof(float));
  for (k = 0; k < options->steps && all > 0; ++k)
    step(options, options->polynomials + 3 * k, low, rows < columns ? columns : rows, X, A, S, P,
         T);
  if (rows > columns)
    transpose(columns, rows, X, orthogonal);
  else
    memcpy(orthogonal, X, all * sizeof(float));
  free(X), free(E), free(P), free(T), free(A), free(S);
}

void oracle_muon_momentum(int nesterov, int maximize, const oracle_scalars* scalars,
                          const float* grad, float* exp_avg, float* direction, size_t numel) {
  const double momentum = scalars->momentum, added = scalars->one_minus_dampening;
  double d;
  float x, y, h, g;
  size_t i;
  for (i = 0; i < numel; ++i) {
    g = maximize ? -grad[i] : grad[i];
    d = momentum * exp_avg[i], x = (float)d;
    d = added * g, y = (float)d;
    d = (double)x + y, exp_avg[i] = (float)d;
    d = momentum * exp_avg[i], h = (float)d;
    d = (double)y + h;
    direction[i] = nesterov ? (float)d : exp_avg[i];
  }
}

float oracle_muon_step_size(int scale, double scale_factor, float lr, int64_t rows,
                            int64_t columns) {
  const double r = (double)rows, c = (double)columns, ratio = r / c, longer = r > c ? r : c;
  double f = 1, z;
  if (scale == oracle_scale_original) f = sqrt(ratio > 1 ? ratio : 1);
  if (scale == oracle_scale_spectral) f = sqrt(longer);
  if (scale == oracle_scale_match_rms_adamw) f = 0.2 * sqrt(longer);
  if (scale == oracle_scale_unit_rms_norm) f = sqrt(ratio);
  z = scale_factor * f;
  z = (double)lr * z;
  return (float)z;
}

void oracle_muon_update(const oracle_scalars* scalars, float step_size, const float* orthogonal,
                        float* master, size_t numel) {
  double d;
  float a, w;
  size_t i;
  for (i = 0; i < numel; ++i) {
    d = (double)step_size * orthogonal[i], a = (float)d;
    if (scalars->has_decay) {
      d = (double)scalars->lr_weight_decay * master[i], w = (float)d;
      d = (double)a + w, a = (float)d;
    }
    d = (double)master[i] - a, master[i] = (float)d;
  }
}
