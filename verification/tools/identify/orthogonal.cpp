#include "verification/tools/identify/orthogonal.hpp"

#include <algorithm>
#include <cmath>

#include "common/base/float_formats.hpp"

namespace zeroproof::verification {
namespace {

double to_single(double x) { return static_cast<float>(x); }
double to_bfloat(double x) { return to_float(to_bf16(static_cast<float>(x))); }
double unrounded(double x) { return x; }

Matrix transposed(const Matrix& x) {
  Matrix t{x.columns, x.rows, std::vector<double>(x.values.size())};
  for (std::size_t i = 0; i < x.rows; ++i) {
    for (std::size_t j = 0; j < x.columns; ++j)
      t.values[j * x.rows + i] = x.values[i * x.columns + j];
  }
  return t;
}

/// x y.
Matrix product(const Matrix& x, const Matrix& y) {
  Matrix p{x.rows, y.columns, std::vector<double>(x.rows * y.columns)};
  for (std::size_t i = 0; i < x.rows; ++i) {
    double* row = p.values.data() + i * y.columns;
    for (std::size_t q = 0; q < x.columns; ++q) {
      const double factor = x.values[i * x.columns + q];
      const double* other = y.values.data() + q * y.columns;
      for (std::size_t j = 0; j < y.columns; ++j) row[j] += factor * other[j];
    }
  }
  return p;
}

template <class F>
Matrix each(const Matrix& x, const F& f) {
  Matrix y = x;
  for (double& value : y.values) value = f(value);
  return y;
}

template <class F>
Matrix each(const Matrix& x, const Matrix& y, const F& f) {
  Matrix z = x;
  for (std::size_t i = 0; i < z.values.size(); ++i) z.values[i] = f(x.values[i], y.values[i]);
  return z;
}

/// One polynomial of X, of at most as many rows as columns.
template <class Round>
Matrix next(const Matrix& x, QuinticPolynomial polynomial, MuonProducts form, const Round& round) {
  const double a = to_single(polynomial.a), b = to_single(polynomial.b),
               c = to_single(polynomial.c);
  const auto times = [&](double factor) { return [=](double v) { return round(factor * v); }; };
  const auto sum = [&](double v, double w) { return round(v + w); };
  const Matrix gram = each(product(x, transposed(x)), round);
  if (form == MuonProducts::fused || form == MuonProducts::single) {
    const Matrix square = product(gram, gram);
    const Matrix mixed =
        each(gram, square, [&](double g, double s) { return round(b * g + c * s); });
    return each(x, product(mixed, x), [&](double v, double p) { return round(a * v + p); });
  }
  const bool partly = form == MuonProducts::partly_fused;
  Matrix square = form == MuonProducts::scaled_product
                      ? each(each(product(gram, gram), round), times(c))
                      : product(each(gram, times(c)), gram);
  if (form == MuonProducts::scaled_factor) square = each(square, round);
  const Matrix mixed = each(each(gram, times(b)), square, sum);
  const Matrix moved = product(mixed, x);
  return each(each(x, times(a)), partly ? moved : each(moved, round), sum);
}

template <class Round>
Matrix rounded_steps(Matrix x, Polynomials polynomials, MuonProducts form, const Round& round) {
  for (int k = 0; k < polynomials.steps; ++k)
    x = next(x, polynomial_of(polynomials.set, k), form, round);
  return x;
}

}  // namespace

double Matrix::norm() const {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

bool Polynomials::same_values(const Polynomials& other) const {
  if (steps != other.steps) return false;
  for (int k = 0; k < steps; ++k) {
    if (!(polynomial_of(set, k) == polynomial_of(other.set, k))) return false;
  }
  return true;
}

std::vector<Matrix> exact_orthogonal(const Matrix& direction, Polynomials polynomials,
                                     double divisor) {
  const bool tall = direction.rows > direction.columns;
  Matrix x = each(tall ? transposed(direction) : direction, [&](double v) { return v / divisor; });
  std::vector<Matrix> results = {tall ? transposed(x) : x};
  for (int k = 0; k < polynomials.steps; ++k) {
    x = next(x, polynomial_of(polynomials.set, k), MuonProducts::fused, unrounded);
    results.push_back(tall ? transposed(x) : x);
  }
  return results;
}

Matrix rounded_orthogonal(const Matrix& direction, Polynomials polynomials, MuonProducts products,
                          MuonInput input, const GivenMuon& options) {
  const bool first = input == MuonInput::bf16_first || input == MuonInput::bf16_norm_bf16;
  const bool single = input == MuonInput::fp32;
  const Matrix given = each(each(direction, to_single), first ? to_bfloat : to_single);
  const bool narrow = input == MuonInput::bf16_norm_bf16;
  const auto kept = [&](double norm) { return narrow ? to_bfloat(norm) : to_single(norm); };
  const double divisor = kept(options.divisor(kept(given.norm())));
  const bool tall = direction.rows > direction.columns;
  const auto divided = [&](double v) {
    return single ? to_single(v / divisor) : to_bfloat(to_single(v / divisor));
  };
  Matrix x = each(tall ? transposed(given) : given, divided);
  x = single ? rounded_steps(x, polynomials, products, to_single)
             : rounded_steps(x, polynomials, products, to_bfloat);
  return tall ? transposed(x) : x;
}

double scale_of(MuonScaling scaling, std::size_t rows, std::size_t columns) {
  double r = static_cast<double>(rows), c = static_cast<double>(columns);
  if (scaling.exchanged) std::swap(r, c);
  switch (scaling.scale) {
    case MuonScale::original:
      return std::sqrt(std::max(1.0, r / c));
    case MuonScale::spectral:
      return std::sqrt(std::max(r, c));
    case MuonScale::match_rms_adamw:
      return 0.2 * std::sqrt(std::max(r, c));
    case MuonScale::unit_rms_norm:
      return std::sqrt(r / c);
    case MuonScale::none:
      break;
  }
  return 1;
}

}  // namespace zeroproof::verification
