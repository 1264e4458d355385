#pragma once
// Matrix products and Muon as plain loops over the lines of R27 and R28; norms are the oracle's sums of R12.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/span.hpp"
#include "common/contracts/step_scalars.hpp"
#include "oracle.h"

namespace zeroproof::device_test {

inline float to_bf16(float x) {
  std::uint16_t code = 0;
  float wide = 0;
  oracle_cast_bf16(&x, &code, 1);
  oracle_widen_bf16(&code, &wide, 1);
  return wide;
}

/// Rows of a matrix, each with its elements.
using Rows = std::vector<std::vector<float>>;

inline Rows make_rows(std::int64_t rows, std::int64_t columns) {
  return Rows(static_cast<std::size_t>(rows),
              std::vector<float>(static_cast<std::size_t>(columns)));
}

inline Rows rows_of(Span<const float> values, std::int64_t rows, std::int64_t columns) {
  Rows matrix = make_rows(rows, columns);
  std::size_t at = 0;
  for (std::vector<float>& row : matrix)
    for (float& x : row) x = values[at++];
  return matrix;
}

inline Rows transposed(const Rows& matrix) {
  const std::size_t columns = matrix.empty() ? 0 : matrix[0].size();
  Rows turned =
      make_rows(static_cast<std::int64_t>(columns), static_cast<std::int64_t>(matrix.size()));
  for (std::size_t i = 0; i < matrix.size(); ++i)
    for (std::size_t j = 0; j < columns; ++j) turned[j][i] = matrix[i][j];
  return turned;
}

/// P_ij of rows with `inner` elements each.
inline float product_element(const std::vector<float>& x, const std::vector<float>& y,
                             MatrixFactors factors) {
  const std::size_t n = x.size();
  float s[8] = {};
  for (std::size_t b = 0; b < 8; ++b) {
    for (std::size_t q = n * b / 8; q < n * (b + 1) / 8; ++q) {
      const bool rounds = factors == MatrixFactors::bf16;
      s[b] = std::fma(rounds ? to_bf16(x[q]) : x[q], rounds ? to_bf16(y[q]) : y[q], s[b]);
    }
  }
  return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

/// f(P_ij, i, j) of left and the transpose of right.
template <class F>
Rows product_rows(const Rows& left, const Rows& right, const F& f) {
  Rows product =
      make_rows(static_cast<std::int64_t>(left.size()), static_cast<std::int64_t>(right.size()));
  for (std::size_t i = 0; i < left.size(); ++i)
    for (std::size_t j = 0; j < right.size(); ++j)
      product[i][j] = f(product_element(left[i], right[j], MatrixFactors::fp32), i, j);
  return product;
}

inline double divisor_by_loop(const NewtonSchulzOptions& options, const Rows& e) {
  oracle_exact sum;
  oracle_exact_clear(&sum);
  for (const std::vector<float>& row : e) oracle_exact_add_squares(&sum, row.data(), row.size());
  const double n = oracle_exact_norm(&sum);
  if (std::isnan(n)) return n;
  if (options.floor == NormFloor::add) return n + options.eps;
  return n > options.eps ? n : options.eps;
}

/// One step of the iteration: X'.
inline Rows iterated(const NewtonSchulzOptions& options, const QuinticPolynomial& p,
                     const Rows& x) {
  const auto round = [&](float value) {
    return options.factors == MatrixFactors::bf16 ? to_bf16(value) : value;
  };
  const auto a = static_cast<float>(p.a), b = static_cast<float>(p.b), c = static_cast<float>(p.c);
  const Rows gram = product_rows(x, x, [&](float s, auto, auto) { return round(s); });
  Rows polynomial;
  if (options.form == PolynomialForm::fused) {
    polynomial = product_rows(gram, gram, [&](float s, auto i, auto j) {
      const float u = b * gram[i][j];
      const float v = c * s;
      return round(u + v);
    });
  } else if (options.form == PolynomialForm::scaled_factor) {
    Rows factor = gram;
    for (std::vector<float>& row : factor)
      for (float& value : row) value = round(c * value);
    polynomial = product_rows(factor, gram, [&](float s, auto i, auto j) {
      const float u = round(b * gram[i][j]);
      return round(u + round(s));
    });
  } else {
    polynomial = product_rows(gram, gram, [&](float s, auto i, auto j) {
      const float v = round(c * round(s));
      const float u = round(b * gram[i][j]);
      return round(u + v);
    });
  }
  return product_rows(polynomial, transposed(x), [&](float s, auto i, auto j) {
    if (options.form == PolynomialForm::fused) {
      const float w = a * x[i][j];
      return round(w + s);
    }
    const float w = round(a * x[i][j]);
    return round(w + round(s));
  });
}

/// O of R28 for a matrix with elements.
inline Rows newton_schulz_by_loop(const NewtonSchulzOptions& options, Rows e) {
  const bool to = options.factors == MatrixFactors::bf16;
  for (std::vector<float>& row : e)
    for (float& x : row) x = options.rounds_first && to ? to_bf16(x) : x;
  const double divisor = divisor_by_loop(options, e);
  const bool turns = e.size() > e[0].size();
  Rows x = turns ? transposed(e) : e;
  for (std::vector<float>& row : x) {
    for (float& value : row) {
      const double q = static_cast<double>(value) / divisor;
      value = to ? to_bf16(static_cast<float>(q)) : static_cast<float>(q);
    }
  }
  for (int k = 0; k < options.steps; ++k)
    x = iterated(options, polynomial_of(options.coefficients, k), x);
  return turns ? transposed(x) : x;
}

/// exp_avg' in place; returns e.
inline float muon_momentum_by_loop(const StepScalars& s, const MuonMomentumOptions& options,
                                   float grad, float& exp_avg) {
  const float g = options.maximize ? -grad : grad;
  const float x = s.momentum * exp_avg;
  const float y = s.one_minus_dampening * g;
  exp_avg = x + y;
  const float h = s.momentum * exp_avg;
  return options.nesterov ? y + h : exp_avg;
}

inline float muon_step_size_by_loop(const MuonSettings& settings, float lr, std::int64_t rows,
                                    std::int64_t columns) {
  const auto r = static_cast<double>(rows), c = static_cast<double>(columns);
  double f = 1;
  if (settings.scale == MuonScale::original) f = std::sqrt(std::max(1.0, r / c));
  if (settings.scale == MuonScale::spectral) f = std::sqrt(std::max(r, c));
  if (settings.scale == MuonScale::match_rms_adamw) f = 0.2 * std::sqrt(std::max(r, c));
  if (settings.scale == MuonScale::unit_rms_norm) f = std::sqrt(r / c);
  const double z = settings.scale_factor * f;
  return static_cast<float>(static_cast<double>(lr) * z);
}

inline float muon_update_by_loop(const StepScalars& s, float step_size, float orthogonal,
                                 float master) {
  const float a = step_size * orthogonal;
  const float w = s.lr_weight_decay * master;
  return master - (s.has_decay != 0 ? a + w : a);
}

}  // namespace zeroproof::device_test
