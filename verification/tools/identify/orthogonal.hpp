#pragma once
// Newton-Schulz as libraries evaluate it: in fp64 for what a polynomial means, and with the roundings of a choice.

#include <cstddef>
#include <vector>

#include "verification/tools/identify/hyper.hpp"
#include "verification/tools/identify/muon_formula.hpp"

namespace zeroproof::verification {

/// Rows after one another.
struct Matrix {
  std::size_t rows = 0, columns = 0;
  std::vector<double> values;

  double norm() const;
};

/// Polynomials of a set, or several with the same values.
struct Polynomials {
  NewtonSchulzSet set = NewtonSchulzSet::simple;
  int steps = 0;  ///< 0: the normalised matrix itself

  /// True if both have the same polynomials in the same order.
  bool same_values(const Polynomials& other) const;
};

/// Results after 0, 1, .. steps polynomials, in fp64 throughout.
std::vector<Matrix> exact_orthogonal(const Matrix& direction, Polynomials polynomials,
                                     double divisor);

/// The result with roundings; sums of products are exact before they are rounded, so that a library's result differs where
/// its order of summation moves a value to the other side of a rounding boundary. `given` has the floor of the norm.
Matrix rounded_orthogonal(const Matrix& direction, Polynomials polynomials, MuonProducts products,
                          MuonInput input, const GivenMuon& given = {});

/// f of R28 for these extents.
double scale_of(MuonScaling scaling, std::size_t rows, std::size_t columns);

}  // namespace zeroproof::verification
