#pragma once
// A step length that satisfies the strong Wolfe conditions, from values and slopes along one
// direction (R21).

#include <cstdint>
#include <functional>

#include "reference/lbfgs/lbfgs_vectors.hpp"

namespace zeroproof::reference {

/// A point of the line x + t d. If it is not valid, f is +infinity and the other members are not
/// read.
struct LineTrial {
  double t = 0;
  double f = 0;
  double slope = 0;  ///< dot(g, d)
  bool good = true;
  double max_abs = 0;  ///< of g
  ShardVector g;
};

/// Inputs of a search besides its trials. `start` is the point with t = 0.
struct LineSearchLimits {
  double largest_d = 0;  ///< max_abs(d)
  double tolerance_change = 0;
  std::int64_t max_ls = 0;
};

/// The accepted trial [LBFGS:wolfe]; the start if none is better. `trial` evaluates at a step
/// length.
LineTrial strong_wolfe(const LineTrial& start, double first_t, const LineSearchLimits& limits,
                       const std::function<LineTrial(double t)>& trial);

/// The minimum of the cubic through two values and slopes, within [low, high] [LBFGS:cubic].
double cubic_minimum(const LineTrial& p, const LineTrial& q, double low, double high);

}  // namespace zeroproof::reference
