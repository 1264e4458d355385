// [Bound:lipschitz] in fp64: how far an odd polynomial of singular values moves two matrices apart, and a search for pairs
// that exceed it; [Muon:slice].
#include <doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include "cases.hpp"
#include "common/contracts/newton_schulz.hpp"

using namespace zeroproof::papers;
using zeroproof::QuinticPolynomial;

namespace {

struct Matrix {
  std::size_t rows, columns;
  std::vector<double> values;

  double& at(std::size_t i, std::size_t j) { return values[i * columns + j]; }
  double at(std::size_t i, std::size_t j) const { return values[i * columns + j]; }
};

Matrix zeros(std::size_t rows, std::size_t columns) {
  return {rows, columns, std::vector<double>(rows * columns)};
}

Matrix operator*(const Matrix& a, const Matrix& b) {
  Matrix product = zeros(a.rows, b.columns);
  for (std::size_t i = 0; i < a.rows; ++i)
    for (std::size_t k = 0; k < a.columns; ++k)
      for (std::size_t j = 0; j < b.columns; ++j) product.at(i, j) += a.at(i, k) * b.at(k, j);
  return product;
}

Matrix transposed(const Matrix& a) {
  Matrix result = zeros(a.columns, a.rows);
  for (std::size_t i = 0; i < a.rows; ++i)
    for (std::size_t j = 0; j < a.columns; ++j) result.at(j, i) = a.at(i, j);
  return result;
}

double distance(const Matrix& a, const Matrix& b) {
  double squares = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i)
    squares += (a.values[i] - b.values[i]) * (a.values[i] - b.values[i]);
  return std::sqrt(squares);
}

Matrix iterated(Matrix x, const std::vector<QuinticPolynomial>& polynomials) {
  for (const QuinticPolynomial& p : polynomials) {
    const Matrix a = x * transposed(x), square = a * a;
    Matrix b = a;
    for (std::size_t i = 0; i < b.values.size(); ++i)
      b.values[i] = p.b * a.values[i] + p.c * square.values[i];
    const Matrix moved = b * x;
    for (std::size_t i = 0; i < x.values.size(); ++i)
      x.values[i] = p.a * x.values[i] + moved.values[i];
  }
  return x;
}

/// Rows that are orthonormal: random ones, each without its part along the rows before it.
Matrix orthonormal(std::size_t n, Cases& cases) {
  Matrix q = zeros(n, n);
  for (double& value : q.values) value = cases.uniform() - 0.5;
  for (std::size_t i = 0; i < n; ++i) {
    for (int twice = 0; twice < 2; ++twice) {
      for (std::size_t k = 0; k < i; ++k) {
        double along = 0;
        for (std::size_t j = 0; j < n; ++j) along += q.at(i, j) * q.at(k, j);
        for (std::size_t j = 0; j < n; ++j) q.at(i, j) -= along * q.at(k, j);
      }
      double squares = 0;
      for (std::size_t j = 0; j < n; ++j) squares += q.at(i, j) * q.at(i, j);
      for (std::size_t j = 0; j < n; ++j) q.at(i, j) /= std::sqrt(squares);
    }
  }
  return q;
}

/// A matrix with these singular values.
Matrix of_values(const std::vector<double>& sigma, const Matrix& left, const Matrix& right) {
  Matrix middle = zeros(left.rows, right.rows);
  for (std::size_t i = 0; i < sigma.size(); ++i) middle.at(i, i) = sigma[i];
  return transposed(left) * middle * right;
}

/// The largest |derivative| over [0, 1], on a grid.
double slope(const std::vector<QuinticPolynomial>& polynomials) {
  double largest = 0;
  for (int i = 0; i <= 200000; ++i) {
    double x = i / 200000.0, derivative = 1;
    for (const QuinticPolynomial& p : polynomials) {
      const double y = x * x;
      derivative *= p.a + y * (3 * p.b + y * 5 * p.c);
      x *= p.a + y * (p.b + y * p.c);
    }
    largest = std::max(largest, std::fabs(derivative));
  }
  return largest;
}

std::vector<QuinticPolynomial> polynomials_of(zeroproof::NewtonSchulzSet set, int steps) {
  std::vector<QuinticPolynomial> polynomials;
  for (int k = 0; k < steps; ++k) polynomials.push_back(zeroproof::polynomial_of(set, k));
  return polynomials;
}

/// The distance of results divided by the bound.
double ratio(const Matrix& x, const Matrix& y, const std::vector<QuinticPolynomial>& polynomials,
             double largest_slope) {
  return distance(iterated(x, polynomials), iterated(y, polynomials)) /
         (largest_slope * distance(x, y));
}

}  // namespace

TEST_CASE("lipschitz: no pair of matrices moves further apart than the slope, and some do as far") {
  Cases cases(11);
  for (const auto& set : zeroproof::newton_schulz_sets) {
    double largest = 0;
    for (const int steps : {1, 2, 5}) {
      const std::vector<QuinticPolynomial> polynomials = polynomials_of(set.set, steps);
      const double bound = slope(polynomials);
      double reached = 0;
      for (int trial = 0; trial < 200; ++trial) {
        const std::size_t rows = 2 + static_cast<std::size_t>(cases.between(0, 3)),
                          columns = rows + 1;
        const Matrix left = orthonormal(rows, cases), right = orthonormal(columns, cases);
        std::vector<double> sigma(rows), other(rows);
        // Pairs of near and of unrelated matrices; every second one with singular values near 0, others near 1.
        const bool near = trial % 2 == 0, small = trial % 4 < 2;
        for (std::size_t i = 0; i < rows; ++i) {
          const double u = cases.uniform() * (small ? 1e-5 : 1);
          sigma[i] = trial % 8 > 3 && i == 0 ? 1 - u : u;
          other[i] = near ? std::max(0.0, sigma[i] - 1e-7 * cases.uniform()) : cases.uniform();
        }
        const Matrix x = of_values(sigma, left, right);
        const Matrix y =
            near ? of_values(other, left, right)
                 : of_values(other, orthonormal(rows, cases), orthonormal(columns, cases));
        const double found = ratio(x, y, polynomials, bound);
        if (!(found <= reached)) reached = found;  // keeps a NaN
      }
      CAPTURE(set.name);
      CAPTURE(steps);
      CHECK(reached <= 1 + 1e-6);
      largest = std::max(largest, reached);
    }
    MESSAGE(set.name << ": " << largest);
    CHECK(largest > 0.95);
  }
}

TEST_CASE("lipschitz: a slope of a smaller interval is exceeded") {
  // quintic in one step is steepest at 0 and, beyond the interval that it is made for, steeper at 1.2.
  Cases cases(12);
  const std::vector<QuinticPolynomial> polynomials =
      polynomials_of(zeroproof::NewtonSchulzSet::quintic, 1);
  const Matrix left = orthonormal(3, cases), right = orthonormal(3, cases);
  const Matrix x = of_values({1.2, 0.5, 0.1}, left, right),
               y = of_values({1.2 + 1e-6, 0.5, 0.1}, left, right);
  CHECK(ratio(x, y, polynomials, slope(polynomials)) > 1.1);
}

TEST_CASE(
    "Newton-Schulz of a slice: the first row of the polar factor is (2, 1)/sqrt(5), alone it is "
    "(1, 1)/sqrt(2)") {
  // (1.5, -0.5, 0) converges to the polar factor.
  const std::vector<QuinticPolynomial> cubic(60, {1.5, -0.5, 0});
  const double norm = std::sqrt(3.0);
  const Matrix whole = iterated({2, 2, {1 / norm, 1 / norm, 0, 1 / norm}}, cubic);
  const Matrix row = iterated({1, 2, {std::sqrt(0.5), std::sqrt(0.5)}}, cubic);
  const std::array<double, 4> polar = {2, 1, -1, 2};
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(std::fabs(whole.values[i] - polar[i] / std::sqrt(5.0)) < 1e-12);
  for (const double value : row.values) CHECK(std::fabs(value - std::sqrt(0.5)) < 1e-12);
}
