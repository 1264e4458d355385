#include "verification/compare/bounds/newton_schulz_step_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/float_formats.hpp"

namespace zeroproof::verification {
namespace {

struct Grid {
  std::size_t rows, columns;
  std::vector<double> values;

  Grid(std::size_t r, std::size_t c) : rows(r), columns(c), values(r * c) {}

  double* row(std::size_t i) { return values.data() + i * columns; }
  const double* row(std::size_t i) const { return values.data() + i * columns; }
};

Grid transposed(const Grid& m) {
  Grid result{m.columns, m.rows};
  for (std::size_t i = 0; i < m.rows; ++i)
    for (std::size_t j = 0; j < m.columns; ++j) result.row(j)[i] = m.row(i)[j];
  return result;
}

Grid times(const Grid& m, const Grid& n) {
  Grid product{m.rows, n.columns};
  for (std::size_t i = 0; i < m.rows; ++i) {
    double* to = product.row(i);
    for (std::size_t k = 0; k < m.columns; ++k) {
      const double factor = m.row(i)[k];
      const double* from = n.row(k);
      for (std::size_t j = 0; j < n.columns; ++j) to[j] += factor * from[j];
    }
  }
  return product;
}

/// function(elements of all matrices at one place), of matrices of one shape.
template <class Function, class... Matrices>
Grid each(const Function& function, const Grid& first, const Matrices&... others) {
  Grid result{first.rows, first.columns};
  for (std::size_t i = 0; i < result.values.size(); ++i)
    result.values[i] = function(first.values[i], others.values[i]...);
  return result;
}

Grid magnitudes(const Grid& m) {
  return each([](double x) { return std::fabs(x); }, m);
}

/// Numbers that a computed matrix may be off by `error` from.
struct Near {
  Grid exact, error;

  Grid largest() const {
    return each([](double x, double e) { return std::fabs(x) + e; }, exact, error);
  }
};

/// Errors of single operations; `of` is the largest magnitude of the result before it is rounded.
class RoundingErrors {
 public:
  explicit RoundingErrors(const MatrixRounding& rounding) : r_(rounding) {}

  double gamma(std::size_t n) const {
    const double nu = static_cast<double>(n) * r_.operation;
    return nu < 0.5 ? nu / (1 - nu) : std::numeric_limits<double>::infinity();
  }
  /// Of a product of `inner` terms whose magnitudes have the sum `of`; one more term may be the sum's start.
  double product(std::size_t inner, double of) const {
    const double g = (1 + r_.factor) * (1 + r_.factor);
    return (gamma(inner + 1) * g + g - 1) * of + 2 * static_cast<double>(inner) * r_.tiny;
  }
  /// Of a product with a coefficient that is rounded or not.
  double scaled(double of) const { return gamma(2) * of + r_.tiny; }
  /// Storing a number of magnitude `of` that is off by `error`.
  double stored(double error, double of) const {
    return r_.stored > 0 ? error + r_.stored * (of + error) + r_.tiny : error;
  }

 private:
  MatrixRounding r_;
};

/// One iteration. The names are those of [Bound:newton_schulz_step].
class OneIteration {
 public:
  OneIteration(const NewtonSchulzOptions& options, int step, const MatrixRounding& rounding)
      : form_(options.form), r_(rounding) {
    const QuinticPolynomial p = polynomial_of(options.coefficients, step);
    a_ = static_cast<float>(p.a);
    b_ = static_cast<float>(p.b);
    c_ = static_cast<float>(p.c);
  }

  Near operator()(const Near& x) const {
    const std::size_t r = x.exact.rows;
    const Grid largest = x.largest(), largest_columns = transposed(largest);
    Near A{times(x.exact, transposed(x.exact)), Grid{r, r}};
    A.error = each(
        [&](double moved, double more, double of, double exact) {
          return r_.stored(moved + more + r_.product(x.exact.columns, of), std::fabs(exact));
        },
        times(magnitudes(x.exact), transposed(x.error)), times(x.error, largest_columns),
        times(largest, largest_columns), A.exact);
    const Near B = polynomial(A);

    const Grid moved = times(B.exact, x.exact);
    Near next{each([&](double value, double p) { return a_ * value + p; }, x.exact, moved),
              Grid{x.exact.rows, x.exact.columns}};
    const Grid of_p = each(
        [&](double carried, double more, double of, double p) {
          return unless_fused(carried + more + r_.product(r, of), std::fabs(p));
        },
        times(B.error, largest), times(magnitudes(B.exact), x.error), times(B.largest(), largest),
        moved);
    next.error = each(
        [&](double p, double e_p, double value, double e, double result) {
          const double w = std::fabs(a_ * value);
          const double e_w = unless_fused(std::fabs(a_) * e + r_.scaled(w + std::fabs(a_) * e), w);
          const double sum = e_p + e_w + r_.gamma(r + 1) * (std::fabs(p) + e_p + w + e_w);
          return r_.stored(sum, std::fabs(result));
        },
        moved, of_p, x.exact, x.error, next.exact);
    return next;
  }

 private:
  double unless_fused(double error, double of) const {
    return form_ == PolynomialForm::fused ? error : r_.stored(error, of);
  }

  /// B = b A + c A A of a symmetric A.
  Near polynomial(const Near& A) const {
    const std::size_t r = A.exact.rows;
    const double b = std::fabs(b_), c = std::fabs(c_);
    const Grid largest = A.largest(), square = times(A.exact, A.exact);
    const Grid of_terms = times(largest, largest);
    Grid off_diagonal = magnitudes(A.exact);
    for (std::size_t i = 0; i < r; ++i) off_diagonal.row(i)[i] = 0;
    const Grid left = times(off_diagonal, A.error), right = times(A.error, off_diagonal);
    const Grid quadratic = times(A.error, A.error);
    // Of F = c A in the products of F A.
    const Grid of_factor =
        times(each([&](double x) { return r_.stored(r_.scaled(c * x), c * x); }, largest), largest);
    Near B{each([&](double x, double s) { return b_ * x + c_ * s; }, A.exact, square), Grid{r, r}};
    for (std::size_t i = 0; i < r; ++i) {
      for (std::size_t j = 0; j < r; ++j) {
        const double diagonal = A.exact.row(i)[i] + A.exact.row(j)[j], e = A.error.row(i)[j];
        const double rest = left.row(i)[j] + right.row(i)[j] + quadratic.row(i)[j];
        const double terms = of_terms.row(i)[j];
        const double of_square =
            std::min(terms, std::fabs(square.row(i)[j]) + std::fabs(diagonal) * e + rest);
        const double moved = std::fabs(b_ + c_ * diagonal) * e + c * rest;
        const double u = b * largest.row(i)[j], e_u = unless_fused(r_.scaled(u), u);
        double e_v = 0;
        if (form_ == PolynomialForm::scaled_factor) {
          const double e_f = of_factor.row(i)[j];
          e_v = r_.stored(e_f + r_.product(r, c * terms + e_f), c * of_square);
        } else {
          const double e_s = unless_fused(r_.product(r, terms), of_square);
          e_v = unless_fused(c * e_s + r_.scaled(c * (of_square + e_s)), c * of_square);
        }
        const double off = e_u + e_v + r_.gamma(r + 1) * (u + e_u + c * of_square + e_v);
        B.error.row(i)[j] = r_.stored(moved + off, std::fabs(B.exact.row(i)[j]));
      }
    }
    return B;
  }

  PolynomialForm form_;
  RoundingErrors r_;
  double a_, b_, c_;
};

/// The matrix that the first iteration starts from: E / D.
Near normalised(const NewtonSchulzOptions& options, const Grid& E, double norm,
                const MatrixRounding& rounding) {
  const RoundingErrors r(rounding);
  const std::size_t numel = E.values.size();
  const bool adds = options.floor == NormFloor::add;
  const double divisor = adds ? norm + options.eps : std::max(norm, options.eps);
  // The sum of squares, its root and the divisor, each of which may be stored.
  const double least =
      norm * norm * (1 - r.gamma(numel)) - static_cast<double>(numel) * rounding.tiny;
  const double of_root = norm - (least > 0 ? std::sqrt(least) : 0);
  const double one = r.gamma(2) + rounding.stored;
  const double of_norm = of_root + one * (norm + of_root);
  const double of_divisor = of_norm + (adds ? one : r.gamma(1)) * (divisor + of_norm);
  const double share = of_divisor / divisor;
  const double relative = share < 0.5 ? (1 + r.gamma(3)) * (1 + rounding.stored) / (1 - share) - 1
                                      : std::numeric_limits<double>::infinity();
  const Grid X = each([&](double x) { return x / divisor; }, E);
  return {X, each([&](double x) { return std::fabs(x) * relative + 2 * rounding.tiny; }, X)};
}

}  // namespace

std::vector<ElementBound> newton_schulz_step_bounds(const NewtonSchulzOptions& options, int step,
                                                    std::int64_t rows, std::int64_t columns,
                                                    Span<const float> matrix,
                                                    const MatrixRounding& rounding) {
  ZP_CHECK(rows >= 0 && columns >= 0 && static_cast<std::int64_t>(matrix.size()) == rows * columns,
           ErrorCode::invalid_argument, "matrix has " + std::to_string(matrix.size()) + " elements",
           "it has rows * columns", "pass a matrix of " + std::to_string(rows * columns));
  const auto all = [&](const ElementBound& one) {
    return std::vector<ElementBound>(matrix.size(), one);
  };
  const bool rounds = step == 0 && options.rounds_first && options.factors == MatrixFactors::bf16;
  Grid given{static_cast<std::size_t>(rows), static_cast<std::size_t>(columns)};
  long double squares = 0;
  bool infinite = false, nan = false;
  double largest = 0;
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    const double x = given.values[i] = rounds ? to_float(to_bf16(matrix[i])) : matrix[i];
    squares += static_cast<long double>(x) * x;
    infinite = infinite || std::isinf(x);
    nan = nan || std::isnan(x);
    largest = std::max(largest, std::fabs(x));
  }
  if (nan || (infinite && step == 0))
    return all({std::numeric_limits<double>::quiet_NaN(), 0, true});
  if (largest == 0) return all({0, 0, true});
  constexpr double overflowing = 0x1p60, too_large = 0x1p20;
  const auto norm = static_cast<double>(std::sqrt(squares));
  // An infinite norm makes every element 0, and is no part of any order otherwise.
  if (step == 0 && norm >= overflowing)
    return all(
        {0, 0, false, ResultClasses::zero | ResultClasses::minus_zero | ResultClasses::number});
  if (step > 0 && largest >= too_large) return all({});

  const bool tall = rows > columns;
  if (tall) given = transposed(given);
  Near x{given, Grid{given.rows, given.columns}};
  if (step == 0) x = normalised(options, given, norm, rounding);
  x = OneIteration(options, step, rounding)(x);
  if (tall) x = {transposed(x.exact), transposed(x.error)};
  constexpr double evaluated = 1 + 0x1p-25;  // the errors of fp64, which have the same form
  std::vector<ElementBound> bounds;
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    const double error = x.error.values[i] * evaluated;
    bounds.push_back({x.exact.values[i], error, std::isfinite(error)});
  }
  return bounds;
}

}  // namespace zeroproof::verification
