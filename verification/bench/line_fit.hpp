#pragma once

#include <vector>

namespace zeroproof::verification::bench {

/// The line intercept + slope * x that leaves the smallest squares of relative residuals.
struct LineFit {
  double intercept = 0;
  double slope = 0;

  double at(double x) const { return intercept + slope * x; }
};

/// x, y: [count], y > 0. For fewer than two different x: a horizontal line.
LineFit fit_line(const std::vector<double>& x, const std::vector<double>& y);

/// y / fit - 1 of each point.
std::vector<double> residuals(const LineFit& fit, const std::vector<double>& x,
                              const std::vector<double>& y);

/// The largest magnitude; 0 of none.
double worst(const std::vector<double>& residuals);

}  // namespace zeroproof::verification::bench
