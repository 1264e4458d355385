// [Bound:muon_step]: steps of muon in fp32 in several orders are within it, and wrong ones are not.

#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/base/philox.hpp"
#include "verification/compare/bounds/muon_step_bound.hpp"

namespace muon_step_bound_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

using Values = std::vector<float>;

/// x y^T of m x k and n x k, terms in both directions.
Values product(const Values& x, const Values& y, std::size_t m, std::size_t n, std::size_t k,
               bool backwards) {
  Values p(m * n);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      float sum = 0;
      for (std::size_t q = 0; q < k; ++q) {
        const std::size_t at = backwards ? k - 1 - q : q;
        sum += x[i * k + at] * y[j * k + at];
      }
      p[i * n + j] = sum;
    }
  }
  return p;
}

Values transposed(const Values& x, std::size_t rows, std::size_t columns) {
  Values t(x.size());
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) t[j * rows + i] = x[i * columns + j];
  }
  return t;
}

/// A step of rows <= columns in fp32.
struct Step {
  std::size_t rows = 12, columns = 20;
  OptimizerHyper hyper;
  Values grad, exp_avg, before, master;

  Step() {
    hyper.rule = UpdateRule::muon;
    hyper.lr = 0.5;
    hyper.weight_decay = 0.1;
    hyper.momentum = 0.95;
    hyper.nesterov = true;
    hyper.muon.newton_schulz.factors = MatrixFactors::fp32;
    std::uint32_t counter = 0;
    const auto uniform = [&] {
      return static_cast<float>(static_cast<std::int32_t>(philox4x32({counter++, 0, 0, 9}, 3)[0])) *
             0x1p-31F;
    };
    for (std::size_t i = 0; i < rows * columns; ++i) {
      grad.push_back(uniform());
      exp_avg.push_back(uniform());
      before.push_back(uniform() * 1e-3F);
    }
  }

  void take(bool backwards, float scale = 1) {
    Values x(grad.size());
    float squares = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = 0.05F * grad[i] + 0.95F * exp_avg[i];
      squares += x[i] * x[i];
    }
    const float norm = std::sqrt(squares);
    for (float& v : x) v /= norm;
    for (int k = 0; k < hyper.muon.newton_schulz.steps; ++k) {
      const QuinticPolynomial p = polynomial_of(NewtonSchulzSet::simple, k);
      const Values a = product(x, x, rows, rows, columns, backwards);
      Values b = product(a, a, rows, rows, rows, backwards);
      for (std::size_t i = 0; i < b.size(); ++i)
        b[i] = static_cast<float>(p.b) * a[i] + static_cast<float>(p.c) * b[i];
      const Values bx = product(b, transposed(x, rows, columns), rows, columns, rows, backwards);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(p.a) * x[i] + bx[i];
    }
    master = before;
    for (std::size_t i = 0; i < x.size(); ++i)
      master[i] = before[i] * (1 - 0.5F * 0.1F) - 0.5F * scale * x[i];
  }

  std::optional<double> share() const {
    return muon_step_share(hyper, 1,
                           {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns),
                            grad, exp_avg, before, master});
  }
};

}  // namespace

TEST_CASE("[Bound:muon_step] holds for every order, and not for another update") {
  Step step;
  double most = 0;
  for (const bool backwards : {false, true}) {
    step.take(backwards);
    REQUIRE(step.share());
    CHECK(*step.share() <= 1);
    most = std::max(most, *step.share());
  }
  CHECK(most > 1e-4);  // of the roundings of Newton-Schulz: those of the parameters alone are less
  step.take(false, 1.02F);
  CHECK(*step.share() > 1);
  step.take(false);
  Step other = step;
  other.hyper.nesterov = false;
  CHECK(*other.share() > 1);
  other = step;
  other.hyper.muon.newton_schulz.steps = 4;
  CHECK(*other.share() > 1);
  other = step;
  other.hyper.weight_decay = 0;
  other.master[3] += 0.5F;
  CHECK(*other.share() > 1);
  other.master[3] = std::nanf("");
  CHECK_FALSE(*other.share() <= 1);
}

TEST_CASE("[Bound:muon_step] is none for a gradient that is not finite or without a direction") {
  Step step;
  step.take(false);
  Step other = step;
  other.grad[5] = HUGE_VALF;
  CHECK_FALSE(other.share());
  other = step;
  std::ranges::fill(other.grad, 0.0F);
  std::ranges::fill(other.exp_avg, 0.0F);
  CHECK_FALSE(other.share());
  other = step;
  other.hyper.muon.newton_schulz.steps = 40;  // larger than the update
  CHECK_FALSE(other.share());
}

}  // namespace muon_step_bound_test
