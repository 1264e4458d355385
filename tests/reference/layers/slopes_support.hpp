#pragma once
// Gradients against differences of the loss: sum of dy * y, in fp64 along a direction.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <vector>

#include "tests/reference/support.hpp"

namespace zeroproof::tests {

using Wide = std::vector<double>;

inline Wide wide(const std::vector<float>& values) { return {values.begin(), values.end()}; }

/// Compares `gradient` with central differences of `loss` in fp64 at x: the derivative along 16
/// directions, and that of each of the first elements. Returns the largest distance, relative to
/// the sum of the magnitudes of the terms of the derivative.
inline double worst_slope_error(const std::function<double(const Wide&)>& loss,
                                const std::vector<float>& x, const std::vector<float>& gradient) {
  constexpr double step =
      0x1p-14;  // the error of a central difference is its square, 2^-28, times third derivatives
  double worst = 0;
  const std::size_t alone = std::min<std::size_t>(x.size(), 64);
  for (std::size_t k = 0; k < 16 + alone; ++k) {
    Wide direction(x.size());
    const Philox philox(k);
    for (std::size_t i = 0; i < x.size(); ++i) {
      direction[i] = k < 16 ? 2.0 * double{philox.uniform(i)} - 1.0 : (i == k - 16 ? 1.0 : 0.0);
    }
    Wide above = wide(x), below = wide(x);
    double derivative = 0, magnitude = 1;
    for (std::size_t i = 0; i < x.size(); ++i) {
      above[i] += step * direction[i];
      below[i] -= step * direction[i];
      derivative += double{gradient[i]} * direction[i];
      magnitude += std::fabs(double{gradient[i]} * direction[i]);
    }
    const double difference = (loss(above) - loss(below)) / (2 * step);
    const double error = std::fabs(difference - derivative) / magnitude;
    if (!(error <= worst)) worst = error;
  }
  return worst;
}

}  // namespace zeroproof::tests
