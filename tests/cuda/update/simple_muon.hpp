#pragma once
// Matrix products and Muon by the text of the contract (R27, R28), one element after another.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/host/operations.hpp"
#include "tests/cuda/update/simple_lamb.hpp"

namespace zeroproof::tests {

using Values = std::vector<float>;

/// Cast to bf16 and widened.
inline float simple_bf16(float x) {
  if (std::isnan(x) || std::isinf(x)) return x;
  // The unit of the last place of 8 significant bits, and of the smallest bf16.
  const int unit = std::max(x == 0 ? 0 : std::ilogb(x) - 7, -133);
  const double places = std::nearbyint(std::ldexp(static_cast<double>(x), -unit));
  const double value = std::ldexp(places, unit);
  if (std::fabs(value) >= 0x1p128) return value > 0 ? 1.0F / 0.0F : -1.0F / 0.0F;
  return value == 0 ? std::copysign(0.0F, x) : static_cast<float>(value);
}

inline float simple_round(bool rounds, float x) { return rounds ? simple_bf16(x) : x; }

/// X Y^T of R27; X: [rows, inner], Y: [columns, inner].
inline Values simple_product(bool rounds, std::int64_t rows, std::int64_t columns,
                             std::int64_t inner, const Values& x, const Values& y) {
  Values product;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      float s[8];
      for (std::int64_t b = 0; b < 8; ++b) {
        s[b] = 0;
        for (std::int64_t q = inner * b / 8; q < inner * (b + 1) / 8; ++q) {
          s[b] = std::fma(simple_round(rounds, x[i * inner + q]),
                          simple_round(rounds, y[j * inner + q]), s[b]);
        }
      }
      product.push_back(((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7])));
    }
  }
  return product;
}

inline Values simple_transpose(std::int64_t rows, std::int64_t columns, const Values& x) {
  Values turned;
  for (std::int64_t j = 0; j < columns; ++j) {
    for (std::int64_t i = 0; i < rows; ++i) turned.push_back(x[i * columns + j]);
  }
  return turned;
}

/// The norm of R12, form exact.
inline double simple_exact_norm(const Values& values) {
  NormLimbs limbs;
  for (const float value : values) add_square(value, limbs);
  return cuda::host::grad_norm_finish(limbs);
}

inline Values simple_newton_schulz(const NewtonSchulzOptions& options, std::int64_t rows,
                                   std::int64_t columns, Values e) {
  if (e.empty()) return e;
  const bool rounds = options.factors == MatrixFactors::bf16;
  const auto round = [&](float x) { return simple_round(rounds, x); };
  if (options.rounds_first) std::transform(e.begin(), e.end(), e.begin(), round);
  const double n = simple_exact_norm(e);
  double d = n > options.eps ? n : options.eps;
  if (options.floor == NormFloor::add) d = n + options.eps;
  if (std::isnan(n)) d = n;
  Values x = rows > columns ? simple_transpose(rows, columns, e) : e;
  for (float& value : x) {
    const double q = static_cast<double>(value) / d;
    value = round(static_cast<float>(q));
  }
  const std::int64_t m = std::min(rows, columns), k = std::max(rows, columns);
  for (int step = 0; step < options.steps; ++step) {
    const QuinticPolynomial p = polynomial_of(options.coefficients, step);
    const float a = static_cast<float>(p.a), b = static_cast<float>(p.b),
                c = static_cast<float>(p.c);
    Values A = simple_product(false, m, m, k, x, x);
    for (float& value : A) value = round(value);
    Values B(A.size());
    if (options.form == PolynomialForm::scaled_factor) {
      Values F;
      for (const float value : A) {
        const float product = c * value;
        F.push_back(round(product));
      }
      const Values S = simple_product(false, m, m, m, F, A);
      for (std::size_t i = 0; i < A.size(); ++i) {
        const float product = b * A[i];
        const float sum = round(product) + round(S[i]);
        B[i] = round(sum);
      }
    } else {
      const Values S = simple_product(false, m, m, m, A, A);
      for (std::size_t i = 0; i < A.size(); ++i) {
        const float u = b * A[i];
        if (options.form == PolynomialForm::fused) {
          const float v = c * S[i];
          const float sum = u + v;
          B[i] = round(sum);
        } else {
          const float v = c * round(S[i]);
          const float sum = round(u) + round(v);
          B[i] = round(sum);
        }
      }
    }
    const Values P = simple_product(false, m, k, m, B, simple_transpose(m, k, x));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float w = a * x[i];
      const float sum = options.form == PolynomialForm::fused ? w + P[i] : round(w) + round(P[i]);
      x[i] = round(sum);
    }
  }
  return rows > columns ? simple_transpose(columns, rows, x) : x;
}

}  // namespace zeroproof::tests
