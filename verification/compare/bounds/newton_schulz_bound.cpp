#include "verification/compare/bounds/newton_schulz_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/float_formats.hpp"
#include "verification/compare/bounds/model.hpp"

namespace zeroproof::verification {
namespace {

constexpr double no_bound = std::numeric_limits<double>::infinity();
constexpr double evaluated =
    1 + 0x1p-30;  // of every computed bound: fp64 sums of at most some thousand terms

/// A polynomial with coefficients in fp32, widened.
struct Polynomial {
  double a, b, c;

  double value(double x) const { return x * (a + x * x * (b + x * x * c)); }
};

Polynomial polynomial(NewtonSchulzSet set, int step) {
  const QuinticPolynomial p = polynomial_of(set, step);
  return {static_cast<float>(p.a), static_cast<float>(p.b), static_cast<float>(p.c)};
}

/// The largest |constant + linear y + square y^2| over low <= y <= high.
double largest_quadratic(double constant, double linear, double square, double low, double high) {
  const auto at = [&](double y) { return std::fabs(constant + y * (linear + y * square)); };
  double most = std::max(at(low), at(high));
  const double vertex = square == 0 ? low : -linear / (2 * square);
  if (low < vertex && vertex < high) most = std::max(most, at(vertex));
  return most * evaluated;
}

struct Interval {
  double low, high;

  double magnitude() const { return std::max(std::fabs(low), std::fabs(high)); }
};

/// Values of a polynomial over an interval of numbers that are not negative.
Interval range_of(const Polynomial& p, Interval x) {
  const double l = p.value(x.low), h = p.value(x.high);
  Interval range{std::min(l, h), std::max(l, h)};
  const auto visit = [&](double square) {  // a zero of the derivative
    const double at = square >= 0 ? std::sqrt(square) : -1;
    if (!(x.low < at && at < x.high)) return;
    range.low = std::min(range.low, p.value(at));
    range.high = std::max(range.high, p.value(at));
  };
  const double discriminant = 9 * p.b * p.b - 20 * p.a * p.c;
  if (p.c != 0 && discriminant >= 0) {
    visit((-3 * p.b + std::sqrt(discriminant)) / (10 * p.c));
    visit((-3 * p.b - std::sqrt(discriminant)) / (10 * p.c));
  } else if (p.c == 0 && p.b != 0) {
    visit(-p.a / (3 * p.b));
  }
  const double margin = 0x1p-40 * (std::fabs(range.low) + std::fabs(range.high) + x.high);
  return {range.low - margin, range.high + margin};
}

/// The largest |p'(x)| over an interval.
double slope_of(const Polynomial& p, Interval x) {
  return largest_quadratic(p.a, 3 * p.b, 5 * p.c, x.low * x.low, x.high * x.high);
}

/// Cells of [0, reach], each with its image under the polynomials so far and the largest |derivative| there.
class Spread {
 public:
  explicit Spread(double reach) {
    constexpr int cells = 8192;
    for (int i = 0; i < cells; ++i) {
      const double end = reach * (i + 1) / cells * evaluated;
      cells_.push_back({{reach * i / cells, end}, 1, end});
    }
  }

  void apply(const Polynomial& p) {
    largest_ = radial_ = 0;
    for (Cell& cell : cells_) {
      cell.slope *= slope_of(p, cell.image) * evaluated;
      const Interval range = range_of(p, cell.image);
      // p is odd and its derivative even: the sign of the image does not matter.
      const double least = range.low > 0 ? range.low : range.high < 0 ? -range.high : 0;
      cell.image = {least, range.magnitude()};
      largest_ = std::max(largest_, cell.slope);
      radial_ = std::max(radial_, cell.slope * cell.end);
    }
  }

  double slope() const { return largest_; }
  double radial() const { return radial_; }  ///< the largest x |derivative|

 private:
  struct Cell {
    Interval image;
    double slope, end;
  };
  std::vector<Cell> cells_;
  double largest_ = 1, radial_ = 0;
};

/// The largest |linear x + cubic x^3| over 0 <= x <= reach.
double largest_cubic(double linear, double cubic, double reach) {
  return range_of({linear, cubic, 0}, {0, reach}).magnitude();
}

/// Upper bounds of the norms of a matrix.
struct Norms {
  double two, frobenius;

  Norms off_by(double error) const { return {two + error, frobenius + error}; }
};

/// One iteration on a stored matrix: the distance of its result from the polynomial of that matrix. The names of
/// the errors are those of papers/bounds.md.
class LocalError {
 public:
  LocalError(PolynomialForm form, const MatrixRounding& rounding, std::int64_t rows,
             std::int64_t columns)
      : form_(form),
        r_(rounding),
        rows_(static_cast<double>(std::min(rows, columns))),
        columns_(static_cast<double>(std::max(rows, columns))) {}

  double of(const Polynomial& p, const Norms& x) const {
    const double s = x.two, root = std::sqrt(rows_), c = std::fabs(p.c);
    const Norms gram{s * s, std::min(s * x.frobenius, root * s * s)};
    double off_a = product(x, x, columns_);
    off_a += stored(gram.frobenius + off_a);
    const Norms a = gram.off_by(off_a);

    const double largest_b = largest_quadratic(0, p.b, p.c, 0, s * s);
    const Norms exact_b{largest_b,
                        std::min(root * largest_b, largest_cubic(p.b, p.c, s) * x.frobenius)};
    const double quadratic = c * off_a * off_a;  // of what b A + c A A becomes by the error of A
    const double moved_b = largest_quadratic(p.b, p.c, 0, 0, 2 * s * s) * off_a + quadratic;
    const double off_b = error_of_b(p, a, exact_b.frobenius + moved_b);
    const Norms b = exact_b.off_by(moved_b + off_b);

    const double carried =
        std::max(largest_cubic(p.b, p.c, s), largest_cubic(p.b + p.c * s * s, p.c, s)) * off_a +
        (quadratic + off_b) * s;
    const double largest_bx = range_of({0, p.b, p.c}, {0, s}).magnitude();
    const double bx = std::min(root * largest_bx, largest_b * x.frobenius);
    double of_p = product(b, x, rows_), of_w = scaled(p.a, x.frobenius);
    if (form_ != PolynomialForm::fused) {
      of_p += stored(bx + carried + of_p);
      of_w += stored(std::fabs(p.a) * x.frobenius + of_w);
    }
    const double addends = std::fabs(p.a) * x.frobenius + of_w + bx + carried + of_p;
    const double error = carried + of_p + of_w + gamma(rows_ + 1) * addends;
    const double largest_result = range_of(p, {0, s}).magnitude();
    const double stretch = largest_quadratic(p.a, p.b, p.c, 0, s * s);
    const double result = std::min(root * largest_result, stretch * x.frobenius);
    return (error + stored(result + error)) * evaluated;
  }

  /// Relative error of a chain of n roundings.
  double gamma(double n) const {
    const double nu = n * r_.operation;
    return nu < 0.5 ? nu / (1 - nu) : no_bound;
  }

 private:
  double flushed() const { return r_.tiny * std::sqrt(rows_ * columns_); }

  /// Of M N or M N^T of `inner` terms each.
  double product(const Norms& m, const Norms& n, double inner) const {
    const double g = r_.factor;
    return g * (m.frobenius * n.two + (m.two + g * m.frobenius) * n.frobenius) +
           gamma(inner + 1) * (1 + g) * (1 + g) * m.frobenius * n.frobenius + 2 * inner * flushed();
  }
  /// Of a product with a coefficient that is rounded or not.
  double scaled(double factor, double frobenius) const {
    return std::fabs(factor) * gamma(2) * frobenius + flushed();
  }
  double stored(double frobenius) const {
    return r_.stored * frobenius + (r_.stored > 0 ? flushed() : 0);
  }

  /// Distance of the computed B from b A + c A A, A being the stored matrix, whose sum has at most the norm `sum`.
  double error_of_b(const Polynomial& p, const Norms& a, double sum) const {
    const double c = std::fabs(p.c), square = a.two * a.frobenius, of_square = product(a, a, rows_);
    const double of_u = scaled(p.b, a.frobenius), u = std::fabs(p.b) * a.frobenius + of_u;
    const auto added =
        [&](double of_v, double of_first) {  // either addend may enter a product as its first term
          const double error = of_first + of_v;
          return error + gamma(rows_ + 1) * (u + of_first + c * square + of_v);
        };
    double error = 0;
    if (form_ == PolynomialForm::fused) {
      error = added(c * of_square + scaled(p.c, square + of_square), of_u);
    } else if (form_ == PolynomialForm::scaled_factor) {
      double of_f = scaled(p.c, a.frobenius);
      of_f += stored(c * a.frobenius + of_f);
      const Norms f = Norms{c * a.two, c * a.frobenius}.off_by(of_f);
      const double of_s = of_f * a.two + product(f, a, rows_);
      error = added(of_s + stored(c * square + of_s), of_u + stored(u));
    } else {
      const double of_s = of_square + stored(square + of_square);
      const double of_v = c * of_s + scaled(p.c, square + of_s);
      error = added(of_v + stored(c * square + of_v), of_u + stored(u));
    }
    return error + stored(sum + error);
  }

  PolynomialForm form_;
  MatrixRounding r_;
  double rows_, columns_;
};

/// A matrix in fp64, with no more rows than columns.
struct Matrix {
  std::size_t rows, columns;
  std::vector<double> values;

  double* row(std::size_t i) { return values.data() + i * columns; }
  const double* row(std::size_t i) const { return values.data() + i * columns; }

  double frobenius() const {
    long double squares = 0;
    for (const double x : values) squares += static_cast<long double>(x) * x;
    return static_cast<double>(std::sqrt(squares)) * evaluated;
  }
};

/// M N for a symmetric M.
Matrix times(const Matrix& m, const Matrix& n) {
  Matrix product{m.rows, n.columns, std::vector<double>(m.rows * n.columns)};
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

Matrix gram(const Matrix& x) {
  Matrix transposed{x.columns, x.rows, std::vector<double>(x.values.size())};
  for (std::size_t i = 0; i < x.rows; ++i)
    for (std::size_t j = 0; j < x.columns; ++j) transposed.row(j)[i] = x.row(i)[j];
  return times(x, transposed);
}

/// An upper bound of the spectral norm of X from the square of A = X X^T: |X|_2 <= |A^m|_F^(1/(2m)), which is at most
/// rows^(1/(4m)) too large.
double spectral_bound(Matrix power) {
  double root = 0;  // logarithm of the bound
  double share = 0.25;
  for (int doubling = 0; doubling < 5; ++doubling) {
    if (doubling > 0) power = times(power, power);
    const double norm = power.frobenius();
    if (norm == 0) return 0;
    root += share * std::log(norm);
    for (double& x : power.values) x /= norm;
    share /= 2;
  }
  return std::exp(root) * evaluated;
}

/// Norms before every iteration, and the result, in fp64.
std::vector<Norms> iterate(const std::vector<Polynomial>& polynomials, Matrix& x) {
  std::vector<Norms> norms;
  for (const Polynomial& p : polynomials) {
    const Matrix a = gram(x), square = times(a, a);
    norms.push_back({spectral_bound(square), x.frobenius()});
    Matrix b = a;
    for (std::size_t i = 0; i < b.values.size(); ++i)
      b.values[i] = p.b * a.values[i] + p.c * square.values[i];
    const Matrix moved = times(b, x);
    for (std::size_t i = 0; i < x.values.size(); ++i)
      x.values[i] = p.a * x.values[i] + moved.values[i];
  }
  return norms;
}

/// Distance of a start from the exact one: a factor 1 + scale that all elements have, and the rest.
struct Start {
  double scale = 0, rest = 0;
};

/// Frobenius distances after 0, 1, .. iterations. `nearby[k]` are norms of a matrix at most `off[k]` away from the exact
/// one after k iterations.
std::vector<double> distances(const std::vector<Polynomial>& polynomials, const LocalError& local,
                              const std::vector<Norms>& nearby, const std::vector<double>& off,
                              Start start, double root_of_rows) {
  struct Source {
    Spread spread;
    double error;
  };
  const std::vector<double> none(polynomials.size() + 1, no_bound);
  const double radius = nearby.empty() ? 0 : nearby[0].frobenius + off[0];
  std::vector<double> found{(start.scale * radius + start.rest) * evaluated};
  std::vector<Source> sources;
  double reach = no_bound;  // of the singular values of the computed matrix
  double fresh = start.rest;
  for (std::size_t k = 0; k < polynomials.size(); ++k) {
    reach = std::min(reach, nearby[k].two + off[k] + found[k]);
    const double frobenius =
        std::min(nearby[k].frobenius + off[k] + found[k], root_of_rows * reach);
    constexpr double too_far = 4;  // every published polynomial grows without limit before
    if (!(reach < too_far)) return none;
    sources.push_back({Spread(reach), fresh});
    fresh = local.of(polynomials[k], {reach, frobenius});
    double sum = fresh;
    for (Source& source : sources) {
      source.spread.apply(polynomials[k]);
      sum += source.spread.slope() * source.error;
    }
    const Spread& first = sources.front().spread;
    sum += start.scale * (1 + start.scale) *
           std::min(first.slope() * radius, first.radial() * root_of_rows);
    reach = range_of(polynomials[k], {0, reach}).magnitude() * evaluated + fresh;
    found.push_back(sum * evaluated);
  }
  return found;
}

std::vector<Polynomial> polynomials_of(const NewtonSchulzOptions& options, int first, int last) {
  std::vector<Polynomial> polynomials;
  for (int step = first; step < last; ++step)
    polynomials.push_back(polynomial(options.coefficients, step));
  return polynomials;
}

/// Iterates in fp64. Returns the distance that an implementation may have from the result.
double judge(const std::vector<Polynomial>& polynomials, PolynomialForm form,
             const MatrixRounding& rounding, const Start& start_of_oracle, const Start& start,
             Matrix& x) {
  constexpr MatrixRounding fp64{0x1p-53, 0, 0, 0x1p-1022};
  const auto rows = static_cast<std::int64_t>(x.rows),
             columns = static_cast<std::int64_t>(x.columns);
  const double root = std::sqrt(static_cast<double>(rows));
  const std::vector<Norms> norms = iterate(polynomials, x);
  const std::vector<double> exact(polynomials.size(), 0.0);
  const std::vector<double> off =
      distances(polynomials, {PolynomialForm::fused, fp64, rows, columns}, norms, exact,
                start_of_oracle, root);
  const std::vector<double> all =
      distances(polynomials, {form, rounding, rows, columns}, norms, off, start, root);
  return (all.back() + off.back()) * evaluated;
}

/// Of a norm in fp32, by any order of additions of squares.
double norm_error(const LocalError& local, const MatrixRounding& rounding, double numel,
                  double norm) {
  const double lost = numel * rounding.tiny / (norm * norm);
  const double kept = 1 - local.gamma(numel) - lost;
  return kept > 0 && norm < 0x1p60 ? (1 + local.gamma(2)) / std::sqrt(kept) - 1 : no_bound;
}

/// visit(i, j) for every element i of a matrix, which has the place j in the matrix with no more rows than columns.
template <class Visit>
void each_place(std::int64_t rows, std::int64_t columns, const Visit& visit) {
  const auto tall = static_cast<std::size_t>(rows), wide = static_cast<std::size_t>(columns);
  for (std::size_t i = 0; i < tall * wide; ++i)
    visit(i, tall > wide ? i % wide * tall + i / wide : i);
}

/// The matrix with no more rows than columns, of zeros.
Matrix oriented(std::int64_t rows, std::int64_t columns, Span<const float> matrix) {
  ZP_CHECK(rows >= 0 && columns >= 0 && static_cast<std::int64_t>(matrix.size()) == rows * columns,
           ErrorCode::invalid_argument, "matrix has " + std::to_string(matrix.size()) + " elements",
           "it has rows * columns", "pass a matrix of " + std::to_string(rows * columns));
  return {static_cast<std::size_t>(std::min(rows, columns)),
          static_cast<std::size_t>(std::max(rows, columns)), std::vector<double>(matrix.size())};
}

}  // namespace

MatrixRounding MatrixRounding::of(MatrixFactors factors) {
  MatrixRounding rounding;
  if (factors == MatrixFactors::bf16) rounding.stored = 0x1p-8;
  return rounding;
}

ElementBound matrix_product_bound(MatrixFactors factors, Span<const float> left_row,
                                  Span<const float> right_row) {
  const auto rounded = [&](float x) {
    return factors == MatrixFactors::bf16 ? to_float(to_bf16(x)) : x;
  };
  bounds::Real sum = 0, magnitudes = 0, infinities = 0;
  for (std::size_t q = 0; q < left_row.size(); ++q) {
    const bounds::Real term = static_cast<bounds::Real>(rounded(left_row[q])) *
                              static_cast<bounds::Real>(rounded(right_row[q]));
    if (!std::isfinite(term)) {
      infinities += term;
      continue;
    }
    sum += term;
    magnitudes += std::fabs(term);
  }
  const auto count = static_cast<int>(left_row.size());
  const bool fits = count < (1 << 22) && magnitudes < bounds::largest;
  if (std::isnan(infinities) || (infinities != 0 && fits)) return {infinities, 0, true};
  if (!fits || infinities != 0) return {};
  return {sum, (bounds::gamma_of(count) * magnitudes + count * bounds::eta) * bounds::slack, true};
}

NewtonSchulzBound NewtonSchulzBound::of(const NewtonSchulzOptions& options, std::int64_t rows,
                                        std::int64_t columns, Span<const float> matrix,
                                        const MatrixRounding& rounding) {
  Matrix x = oriented(rows, columns, matrix);
  NewtonSchulzBound bound;
  bound.exact_.resize(matrix.size());
  if (matrix.empty()) return bound;
  const bool rounds = options.rounds_first && options.factors == MatrixFactors::bf16;
  long double squares = 0;
  each_place(rows, columns, [&](std::size_t i, std::size_t at) {
    x.values[at] = rounds ? to_float(to_bf16(matrix[i])) : matrix[i];
    squares += static_cast<long double>(x.values[at]) * x.values[at];
  });
  const auto norm = static_cast<double>(std::sqrt(squares));
  if (!(norm < no_bound)) {
    std::ranges::fill(bound.exact_, std::numeric_limits<double>::quiet_NaN());
    return bound;
  }
  if (norm == 0) return bound;
  const double divisor =
      options.floor == NormFloor::add ? norm + options.eps : std::max(norm, options.eps);
  for (double& value : x.values) value /= divisor;

  const LocalError local(options.form, rounding, rows, columns);
  const auto numel = static_cast<double>(matrix.size());
  const double radius = x.frobenius();
  Start start;
  const double stored = (options.floor == NormFloor::add ? 2 : 1) * rounding.stored;
  const double of_norm = norm_error(local, rounding, numel, norm) + stored;
  const double of_elements = local.gamma(3) + rounding.stored;
  if (!(of_norm < 0.5)) {
    start.rest = no_bound;
  } else {
    start.scale = (of_norm + local.gamma(2)) / (1 - of_norm - local.gamma(2));
    start.rest = of_elements * (1 + start.scale) * radius + 2 * rounding.tiny * std::sqrt(numel);
  }
  const Start oracle{0, (numel * 0x1p-63 + 0x1p-50) * radius};
  bound.distance_ =
      judge(polynomials_of(options, 0, options.steps), options.form, rounding, oracle, start, x);
  bound.norm_ = x.frobenius();
  each_place(rows, columns, [&](std::size_t i, std::size_t at) { bound.exact_[i] = x.values[at]; });
  return bound;
}

NewtonSchulzBound NewtonSchulzBound::of_iterations(const NewtonSchulzOptions& options, int first,
                                                   int last, std::int64_t rows,
                                                   std::int64_t columns, Span<const float> matrix,
                                                   const MatrixRounding& rounding) {
  Matrix x = oriented(rows, columns, matrix);
  NewtonSchulzBound bound;
  bound.exact_.resize(matrix.size());
  if (matrix.empty()) return bound;
  each_place(rows, columns, [&](std::size_t i, std::size_t at) { x.values[at] = matrix[i]; });
  bound.distance_ = judge(polynomials_of(options, first, last), options.form, rounding, {}, {}, x);
  bound.norm_ = x.frobenius();
  each_place(rows, columns, [&](std::size_t i, std::size_t at) { bound.exact_[i] = x.values[at]; });
  return bound;
}

double NewtonSchulzBound::ratio(Span<const float> candidate) const {
  if (candidate.size() != exact_.size()) return no_bound;
  long double squares = 0;
  bool all_nan = true;
  for (std::size_t i = 0; i < exact_.size(); ++i) {
    const long double off = static_cast<long double>(candidate[i]) - exact_[i];
    all_nan = all_nan && std::isnan(candidate[i]);
    squares += off * off;
  }
  if (!exact_.empty() && std::isnan(exact_[0])) return all_nan ? 0 : no_bound;
  if (squares == 0 || !(distance_ < no_bound)) return 0;
  const auto off = static_cast<double>(std::sqrt(squares));
  return std::isfinite(off) ? off / distance_ : no_bound;
}

ElementBound NewtonSchulzBound::element(std::int64_t index) const {
  const double exact = exact_[static_cast<std::size_t>(index)];
  return {exact, distance_, distance_ < no_bound};
}

double newton_schulz_slope(NewtonSchulzSet set, int first, int last, double reach) {
  Spread spread(reach);
  for (int step = first; step < last; ++step) spread.apply(polynomial(set, step));
  return spread.slope();
}

}  // namespace zeroproof::verification
