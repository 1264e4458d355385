#include "verification/bench/line_fit.hpp"

#include <doctest.h>

#include "verification/bench/rows.hpp"

using namespace zeroproof::verification::bench;

// Approx (1.2e-5, relative) suffices: fits are printed to three digits and judge no bits.

TEST_CASE("line fit: points on a line have no residual, however large x is") {
  const std::vector<double> x = {4e6, 8e6, 16e6, 64e6};
  std::vector<double> y;
  for (const double value : x) y.push_back(2e-3 + 1.5e-9 * value);
  const LineFit fit = fit_line(x, y);
  CHECK(fit.intercept == doctest::Approx(2e-3));
  CHECK(fit.slope == doctest::Approx(1.5e-9));
  CHECK(worst(residuals(fit, x, y)) < 1e-9);
}

TEST_CASE("line fit: residuals are relative, and the largest one may be below the line") {
  // Weights 1 / y^2: 1, 1/4 and 1/4.
  const std::vector<double> x = {1, 2, 8}, y = {1, 2, 2};
  const LineFit fit = fit_line(x, y);
  const double mean_x = (1 + 0.5 + 2) / 1.5, mean_y = (1 + 0.5 + 0.5) / 1.5;
  const double xx = (1 - mean_x) * (1 - mean_x) + (2 - mean_x) * (2 - mean_x) / 4 +
                    (8 - mean_x) * (8 - mean_x) / 4;
  const double xy = (1 - mean_x) * (1 - mean_y) + (2 - mean_x) * (2 - mean_y) / 4 +
                    (8 - mean_x) * (2 - mean_y) / 4;
  CHECK(fit.slope == doctest::Approx(xy / xx));
  CHECK(fit.at(mean_x) == doctest::Approx(mean_y));
  const std::vector<double> rest = residuals(fit, x, y);
  CHECK(rest[1] == doctest::Approx(2 / fit.at(2) - 1));
  CHECK(worst({0.1, -0.3, 0.2}) == 0.3);
}

TEST_CASE("line fit: one x, or no points, gives a horizontal line") {
  CHECK(fit_line({3, 3}, {2, 2}).slope == 0);
  CHECK(fit_line({3, 3}, {2, 2}).at(100) == doctest::Approx(2));
  CHECK(fit_line({}, {}).at(1) == 0);
  CHECK(worst({}) == 0);
}

TEST_CASE("median_of: samples in any order") {
  CHECK(median_of({3, 1, 2}) == 2);
  CHECK(median_of({5}) == 5);
}
