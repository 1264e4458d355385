// Gradients of activations against differences of the same formulas in fp64.

#include "reference/operations.hpp"
#include "tests/reference/layers/slopes_support.hpp"

namespace activations_slopes_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

constexpr std::size_t rows = 6, columns = 10;

/// fp32 has an error of about 2^-21 of a gradient (a dozen roundings), a difference 2^-28 of a
/// third derivative below 2^5.
constexpr double allowed = 0x1p-20;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double gelu(double x) { return x / 2 * (1 + std::tanh(0.79788456 * x * (1 + 0.044715 * x * x))); }

struct Problem {
  std::vector<float> x = random_values(2 * rows * columns, 1, 2),
                     dy = random_values(rows * columns, 2, 2),
                     bias = random_values(2 * columns, 3, 1), weight = random_values(rows, 4, 1);
  std::vector<float> dx = std::vector<float>(x.size()), d_weight = std::vector<float>(rows);

  /// value(gate, linear) for every element, times weights: the loss of which dy is the gradient.
  template <class Value>
  double loss(const Wide& at, const Wide& weights, const Value& value) const {
    double sum = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t j = 0; j < columns; ++j) {
        const double u = at[2 * columns * r + j] + double{bias[j]};
        const double v = at[2 * columns * r + columns + j] + double{bias[columns + j]};
        sum += double{dy[columns * r + j]} * value(u, v) * weights[r];
      }
    }
    return sum;
  }

  template <class Value>
  void check(const Value& value) const {
    CHECK(worst_slope_error([&](const Wide& at) { return loss(at, wide(weight), value); }, x, dx) <
          allowed);
    CHECK(worst_slope_error([&](const Wide& weights) { return loss(wide(x), weights, value); },
                            weight, d_weight) < allowed);
  }
};

}  // namespace

TEST_CASE("slopes: swiglu equals differences, with and without limits") {
  Problem p;
  reference::swiglu_backward({}, columns, 0, p.dy, p.x, p.bias, p.weight, p.dx, p.d_weight);
  p.check([](double u, double v) { return u * sigmoid(u) * v; });
  reference::swiglu_backward({}, columns, 1.25F, p.dy, p.x, p.bias, p.weight, p.dx, p.d_weight);
  p.check([](double u, double v) {
    const double held = std::min(u, 1.25);
    return held * sigmoid(held) * std::clamp(v, -1.25, 1.25);
  });
}

TEST_CASE("slopes: quick_geglu equals differences") {
  Problem p;
  reference::quick_geglu_backward({}, columns, 1, p.dy, p.x, p.bias, p.weight, p.dx, p.d_weight);
  p.check([](double u, double v) { return u * sigmoid(double{1.702F} * u) * (v + 1); });
}

TEST_CASE("slopes: geglu and bias_gelu equal differences") {
  Problem p;
  const Wide ones(rows, 1.0);
  reference::geglu_backward({}, columns, p.dy, p.x, p.bias, p.dx);
  const auto value = [](double u, double v) { return gelu(u) * v; };
  CHECK(worst_slope_error([&](const Wide& at) { return p.loss(at, ones, value); }, p.x, p.dx) <
        allowed);
  std::vector<float> dx(p.dy.size());
  const std::vector<float> x(p.x.begin(), p.x.begin() + rows * columns),
      bias(p.bias.begin(), p.bias.begin() + columns);
  reference::bias_gelu_backward({}, columns, p.dy, x, bias, dx);
  const auto loss = [&](const Wide& at) {
    double sum = 0;
    for (std::size_t i = 0; i < at.size(); ++i)
      sum += double{p.dy[i]} * gelu(at[i] + double{bias[i % columns]});
    return sum;
  };
  CHECK(worst_slope_error(loss, x, dx) < allowed);
}

TEST_CASE("slopes: squared_relu equals differences") {
  const Problem p;
  std::vector<float> dx(p.dy.size()), d_weight(rows);
  const std::vector<float> x(p.x.begin(), p.x.begin() + rows * columns);
  reference::squared_relu_backward({}, columns, p.dy, x, p.weight, dx, d_weight);
  const auto loss = [&](const Wide& at, const Wide& weights) {
    double sum = 0;
    for (std::size_t i = 0; i < at.size(); ++i) {
      const double m = std::max(at[i], 0.0);
      sum += double{p.dy[i]} * m * m * weights[i / columns];
    }
    return sum;
  };
  CHECK(worst_slope_error([&](const Wide& at) { return loss(at, wide(p.weight)); }, x, dx) <
        allowed);
  CHECK(worst_slope_error([&](const Wide& weights) { return loss(wide(x), weights); }, p.weight,
                          d_weight) < allowed);
}

}  // namespace activations_slopes_test
