#pragma once
// What every Newton-Schulz iteration on the host has in common (R28), whichever ranks compute it.

#include <cmath>

#include "common/contracts/newton_schulz.hpp"
#include "cuda/host/update/matrix_product.hpp"

namespace zeroproof::cuda::host {

/// D of R28.
inline double newton_schulz_divisor(const NewtonSchulzOptions& options, double norm) {
  if (std::isnan(norm)) return norm;
  if (options.floor == NormFloor::add) return norm + options.eps;
  return norm > options.eps ? norm : options.eps;
}

/// Elements of memory for newton_schulz_in().
constexpr std::int64_t newton_schulz_numel(const NewtonSchulzOptions& options, std::int64_t rows,
                                           std::int64_t columns) {
  const std::int64_t m = rows < columns ? rows : columns, n = rows < columns ? columns : rows;
  const std::int64_t squares = options.form == PolynomialForm::scaled_factor ? 2 : 1;
  return (rows > columns ? m * n : 0) + squares * m * m + panels_numel(m, m, n);
}

/// newton_schulz (contracts/newton_schulz.hpp) with its values in memory, [newton_schulz_numel()].
void newton_schulz_in(const Exec& exec, const NewtonSchulzOptions& options, std::int64_t rows,
                      std::int64_t columns, Span<const float> matrix, Span<float> orthogonal,
                      float* memory);

/// The operations on the elements of the products of one step: A = X X^T, B from A A or F A, X' from B X.
struct PolynomialEnds {
  PolynomialEnds(const NewtonSchulzOptions& options, const QuinticPolynomial& published) {
    const bool rounds = options.factors == MatrixFactors::bf16;
    const bool each = rounds && options.form != PolynomialForm::fused;
    const bool scales_left = options.form == PolynomialForm::scaled_factor;
    left_factor = static_cast<float>(published.c);
    gram.rounds_last = rounds;
    polynomial = {.factor = scales_left ? 1.0F : left_factor,
                  .addend_factor = static_cast<float>(published.b),
                  .rounds_each = each,
                  .rounds_last = rounds};
    next = {.addend_factor = static_cast<float>(published.a),
            .rounds_each = each,
            .rounds_last = rounds};
  }

  /// gram, x: the elements of A or X that have the same places as those of the result.
  ProductEnd polynomial_of(const float* gram_elements) const {
    ProductEnd end = polynomial;
    end.addend = gram_elements;
    return end;
  }
  ProductEnd next_of(const float* x_elements) const {
    ProductEnd end = next;
    end.addend = x_elements;
    return end;
  }

  float left_factor = 1;  ///< c, by which F is scaled in the form scaled_factor
  ProductEnd gram, polynomial, next;
};

}  // namespace zeroproof::cuda::host
