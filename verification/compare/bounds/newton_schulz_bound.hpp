#pragma once
// How far any order of summation, and any rounding of stored matrices, may move the Newton-Schulz iteration
// (papers/bounds.md, [Bound:newton_schulz]).

#include <cstdint>
#include <vector>

#include "common/base/span.hpp"
#include "common/contracts/newton_schulz.hpp"
#include "verification/compare/bounds/element_bound.hpp"

namespace zeroproof::verification {

/// Unit roundoffs of an implementation. Fewer or smaller roundings are covered.
struct MatrixRounding {
  double operation = 0x1p-24;  ///< of every addition, product and coefficient
  double stored = 0;           ///< of every intermediate matrix, when it is stored: 2^-8 for bf16
  double factor = 0;           ///< of the factors of products beside that: 2^-11 for TF32
  double tiny = 0x1p-126;      ///< results below it may be flushed to 0

  /// Those that R28 permits: intermediates in bf16, or in fp32.
  static MatrixRounding of(MatrixFactors factors);
};

/// Element of a product of `inner` terms in any order ([Bound:matrix_product]): factors exact in fp32, or to be
/// rounded to bf16 first, which is part of the definition of the exact product.
ElementBound matrix_product_bound(MatrixFactors factors, Span<const float> left_row,
                                  Span<const float> right_row);

/// The result of an iteration in exact arithmetic, and the distance from it, as a Frobenius norm over the matrix, that no
/// permitted implementation exceeds.
class NewtonSchulzBound {
 public:
  /// Of R28's operation. A matrix of fp32 numbers [rows, columns]; its norm may be summed in any order.
  /// Errors   invalid_argument as NewtonSchulzFn.
  static NewtonSchulzBound of(const NewtonSchulzOptions& options, std::int64_t rows,
                              std::int64_t columns, Span<const float> matrix,
                              const MatrixRounding& rounding);

  /// Of iterations `first` up to `last` (not included) from the matrix that an implementation returns for `first`
  /// iterations: judges it step by step.
  /// Errors   invalid_argument if matrix has another numel.
  static NewtonSchulzBound of_iterations(const NewtonSchulzOptions& options, int first, int last,
                                         std::int64_t rows, std::int64_t columns,
                                         Span<const float> matrix, const MatrixRounding& rounding);

  /// [rows * columns]. NaN and zeros where the contract has them.
  const std::vector<double>& exact() const { return exact_; }
  double norm() const { return norm_; }          ///< Frobenius norm of exact()
  double distance() const { return distance_; }  ///< infinite if there is no bound
  /// True if a matrix of zeros would be within the bound.
  bool vacuous() const { return !(distance_ < norm_); }

  /// |candidate - exact| / distance, in the Frobenius norm: above 1 if no permitted implementation results in it. With a
  /// NaN result: 0 if all of candidate is NaN, infinite otherwise. 0 without a bound.
  double ratio(Span<const float> candidate) const;
  /// One element, which may have the whole distance.
  ElementBound element(std::int64_t index) const;

 private:
  std::vector<double> exact_;
  double norm_ = 0;
  double distance_ = 0;
};

/// The largest |derivative| over [0, reach] of polynomials `first` to `last` (not included), applied one after another:
/// how far they may spread two matrices whose singular values are at most `reach` ([Bound:lipschitz]).
double newton_schulz_slope(NewtonSchulzSet set, int first, int last, double reach);

}  // namespace zeroproof::verification
