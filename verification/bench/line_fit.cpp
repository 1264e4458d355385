#include "verification/bench/line_fit.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace zeroproof::verification::bench {

LineFit fit_line(const std::vector<double>& x, const std::vector<double>& y) {
  // Weights 1 / y^2 make the residuals relative. Sums about the mean: x runs from 1 to 10^8.
  double weights = 0, mean_x = 0, mean_y = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double weight = 1 / (y[i] * y[i]);
    weights += weight;
    mean_x += weight * x[i];
    mean_y += weight * y[i];
  }
  if (weights == 0) return {};
  mean_x /= weights;
  mean_y /= weights;
  double xx = 0, xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double weight = 1 / (y[i] * y[i]);
    xx += weight * (x[i] - mean_x) * (x[i] - mean_x);
    xy += weight * (x[i] - mean_x) * (y[i] - mean_y);
  }
  const double slope = xx > 0 ? xy / xx : 0;
  return {mean_y - slope * mean_x, slope};
}

std::vector<double> residuals(const LineFit& fit, const std::vector<double>& x,
                              const std::vector<double>& y) {
  std::vector<double> values;
  for (std::size_t i = 0; i < x.size(); ++i) values.push_back(y[i] / fit.at(x[i]) - 1);
  return values;
}

double worst(const std::vector<double>& residuals) {
  double most = 0;
  for (const double value : residuals) most = std::max(most, std::abs(value));
  return most;
}

}  // namespace zeroproof::verification::bench
