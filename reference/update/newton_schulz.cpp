#include <cmath>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "reference/blocks.hpp"
#include "reference/checks.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {
namespace {

/// Row after row, like the views of the contract.
using Matrix = Eigen::Array<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Matrix as_matrix(Span<const float> view, std::int64_t rows, std::int64_t columns) {
  return Eigen::Map<const Matrix>(view.data(), rows, columns);
}
Span<float> elements(Matrix& matrix) {
  return {matrix.data(), static_cast<std::size_t>(matrix.size())};
}

Span<float> row_of(Matrix& matrix, std::int64_t i) {
  return part(elements(matrix), i * matrix.cols(), matrix.cols());
}

/// Cast to bf16 and widened, or unchanged (R27).
Matrix rounded(MatrixFactors factors, Matrix matrix) {
  if (factors == MatrixFactors::fp32) return matrix;
  std::vector<bf16> codes(elements(matrix).size());
  cast_to_bf16({}, elements(matrix), codes);
  widen_bf16({}, codes, elements(matrix));
  return matrix;
}

/// s_j = fma(x, y_j, s_j) for all j.
///
/// With factors bf16 fp64 gives the same bits faster: x * y_j has 16 bits and is exact. The sum is
/// too, or one addend is an fp32 number and the other one less than 2^-26 of it: then the sum is
/// rounded to the first one, whether once or twice.
void add_term(MatrixFactors factors, float x, Span<const float> y, Span<float> s) {
  if (factors == MatrixFactors::bf16) {
    for (std::size_t j = 0; j < s.size(); ++j)
      s[j] = static_cast<float>(double{x} * double{y[j]} + double{s[j]});
  } else {
    for (std::size_t j = 0; j < s.size(); ++j) s[j] = std::fma(x, y[j], s[j]);
  }
}

/// left right^T of factors that are rounded already; one row of the result at a time, for which the
/// terms of all columns are added together.
Matrix product(MatrixFactors factors, const Matrix& left, const Matrix& right) {
  const std::int64_t inner = left.cols();
  Matrix result(left.rows(), right.rows()), columns = right.transpose();
  for (std::int64_t i = 0; i < result.rows(); ++i) {
    Matrix sums = Matrix::Zero(8, result.cols());
    for (std::int64_t b = 0; b < 8; ++b) {
      for (std::int64_t q = inner * b / 8; q < inner * (b + 1) / 8; ++q)
        add_term(factors, left(i, q), row_of(columns, q), row_of(sums, b));
    }
    const auto s = [&](int b) { return sums.row(b); };
    result.row(i) = ((s(0) + s(1)) + (s(2) + s(3))) + ((s(4) + s(5)) + (s(6) + s(7)));
  }
  return result;
}

/// E / D by an exact norm and one division, transposed if there are more rows than columns
/// [Muon:newton_schulz].
Matrix normalised(const NewtonSchulzOptions& options, Matrix E) {
  NormLimbs limbs{};
  grad_norm_exact_accumulate({}, elements(E), limbs);
  const double N = grad_norm_finish(limbs);
  const double clamped = N > options.eps || std::isnan(N) ? N : options.eps;
  const double D = options.floor == NormFloor::clamp ? clamped : N + options.eps;
  const Eigen::ArrayXXd q = E.cast<double>() / D;
  if (E.rows() > E.cols()) return q.cast<float>().transpose();
  return q.cast<float>();
}

/// a X + (b A + c A^2) X with A = X X^T: every singular value x of X becomes a x + b x^3 + c x^5.
Matrix iterated(const NewtonSchulzOptions& options, const QuinticPolynomial& polynomial,
                const Matrix& X) {
  const auto round = [&](const Matrix& values) { return rounded(options.factors, values); };
  const auto times = [&](const Matrix& left, const Matrix& right) {
    return product(options.factors, left, right);
  };
  const auto a = static_cast<float>(polynomial.a);
  const auto b = static_cast<float>(polynomial.b);
  const auto c = static_cast<float>(polynomial.c);
  const bool fused = options.form == PolynomialForm::fused;
  const auto round_if_scaled = [&](const Matrix& values) { return fused ? values : round(values); };

  const Matrix A = round(times(X, X));  // symmetric, bit for bit: its own transpose
  Matrix square;                        // c A^2
  if (options.form == PolynomialForm::scaled_factor) {
    const Matrix F = round(c * A);
    square = round(times(F, A));
  } else {
    const Matrix S = round_if_scaled(times(A, A));
    square = round_if_scaled(c * S);
  }
  const Matrix u = round_if_scaled(b * A);
  const Matrix B = round(u + square);
  const Matrix columns = X.transpose();
  const Matrix P = round_if_scaled(times(B, columns));
  const Matrix w = round_if_scaled(a * X);
  return round(w + P);
}

}  // namespace

void matrix_product(const Exec&, MatrixFactors factors, std::int64_t rows, std::int64_t columns,
                    std::int64_t inner, Span<const float> left, Span<const float> right,
                    Span<float> result) {
  check_matrix("matrix_product", "left", left.size(), rows, inner);
  check_matrix("matrix_product", "right", right.size(), columns, inner);
  check_matrix("matrix_product", "product", result.size(), rows, columns);
  const Matrix x = rounded(factors, as_matrix(left, rows, inner));
  const Matrix y = rounded(factors, as_matrix(right, columns, inner));
  Eigen::Map<Matrix>(result.data(), rows, columns) = product(factors, x, y);
}

void newton_schulz(const Exec&, const NewtonSchulzOptions& options, std::int64_t rows,
                   std::int64_t columns, Span<const float> matrix, Span<float> orthogonal) {
  ZP_CHECK(1 <= options.steps && options.steps <= 64, ErrorCode::invalid_argument,
           "newton_schulz: there are " + std::to_string(options.steps) + " steps",
           "R28 allows 1 to 64", "use such a number");
  ZP_CHECK(std::isfinite(options.eps) && options.eps >= 0x1p-126, ErrorCode::invalid_argument,
           "newton_schulz: eps is " + text(options.eps),
           "it replaces a norm of 0, and must be finite and 2^-126 or more", "use such a value");
  check_matrix("newton_schulz", "matrix", matrix.size(), rows, columns);
  check_matrix("newton_schulz", "orthogonal", orthogonal.size(), rows, columns);
  if (matrix.empty()) return;

  Matrix E = as_matrix(matrix, rows, columns);
  if (options.rounds_first) E = rounded(options.factors, E);
  Matrix X = rounded(options.factors, normalised(options, E));
  for (int step = 0; step < options.steps; ++step)
    X = iterated(options, polynomial_of(options.coefficients, step), X);
  if (rows > columns) X = Matrix(X.transpose());
  Eigen::Map<Matrix>(orthogonal.data(), rows, columns) = X;
}

}  // namespace zeroproof::reference
