#include "reference/operations.hpp"
#include "tests/reference/layers/slopes_support.hpp"

namespace norm_layers_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

constexpr double allowed =
    0x1p-18;  // of a gradient: roundings of 2^-24, some of them of a mean over twelve terms

}  // namespace

TEST_CASE("rms_norm: by hand, 3, 4, 0, 0, 0 and gains") {
  // Mean square 25 / 5 = 5, with eps 4: 9, root 3.
  const std::vector<float> x = {3, 6, 0, 0, 0, 0, 0, 0, 0, 0}, gain = {1, 2, 4, 8, 16},
                           dy = {3, 0, 3, 0, 0, 1, 1, 1, 1, 1};
  std::vector<float> y(10), root(2), dx(10), d_gain(5);
  reference::rms_norm({}, 5, 7, x, gain, y, root);  // 45 / 5 = 9, with eps 7: 16
  CHECK(bits(root) == bits(std::vector<float>{4, std::sqrt(7.0F)}));
  CHECK(bits(y) == bits(std::vector<float>{0.75F, 3, 0, 0, 0, 0, 0, 0, 0, 0}));
  reference::rms_norm_backward({}, 5, dy, x, gain, root, dx, d_gain);
  // u = 0.75, 1.5; g = 3, 0, 12; h = 2.25: k = 0.45; dx = (3 - 0.75 k) / 4, (0 - 1.5 k) / 4, 12 /
  // 4.
  const float k = 2.25F / 5;
  const float first = (3 - 0.75F * k) / 4, second = (0 - 1.5F * k) / 4;
  CHECK(bits(Span<float>(dx)[0]) == bits(first));
  CHECK(bits(Span<float>(dx)[1]) == bits(second));
  CHECK(dx[2] == 3);
  CHECK(bits(d_gain) == bits(std::vector<float>{2.25F, 0, 0, 0, 0}));
}

TEST_CASE("layer_norm: by hand, 1, 3 and -1") {
  // Mean 1, variance (0 + 4 + 4) / 3 with eps 4/3: 4, root 2.
  const std::vector<float> x = {1, 3, -1}, gain = {1, 2, 3}, bias = {10, 20, 30};
  std::vector<float> y(3), mean(1), root(1), dx(3), d_gain(3), d_bias(3);
  reference::layer_norm({}, 3, 4.0F / 3.0F, x, gain, bias, y, mean, root);
  CHECK(bits(mean[0]) == bits(1.0F));
  CHECK(bits(root[0]) == bits(2.0F));
  CHECK(bits(y) == bits(std::vector<float>{10, 22, 27}));
  const std::vector<float> dy = {6, 0, 0};
  reference::layer_norm_backward({}, 3, dy, x, gain, mean, root, dx, d_gain, d_bias);
  // u = 0, 1, -1; g = 6, 0, 0: mean 2, no slope: (6 - 2) / 2, -2 / 2, -2 / 2.
  CHECK(bits(dx) == bits(std::vector<float>{2, -1, -1}));
  CHECK(bits(d_gain) == bits(std::vector<float>{0, 0, 0}));
  CHECK(bits(d_bias) == bits(std::vector<float>{6, 0, 0}));
}

TEST_CASE("norm layers: no rows, values that are not finite, wrong lengths are rejected") {
  const std::vector<float> gain = {1, 1}, x = {0, 0, nan32, 1, inf32, 1};
  std::vector<float> y(6), root(3), mean(3), d_gain(2, 7.0F), d_bias(2, 7.0F);
  reference::rms_norm_backward({}, 2, {}, {}, gain, {}, {}, d_gain);
  CHECK(bits(d_gain) == bits(std::vector<float>{0, 0}));
  reference::layer_norm_backward({}, 2, {}, {}, gain, {}, {}, {}, d_gain, d_bias);
  CHECK(bits(d_bias) == bits(std::vector<float>{0, 0}));
  reference::rms_norm({}, 2, 0, x, gain, y, root);
  CHECK(bits(y) == bits(std::vector<float>{nan32, nan32, nan32, nan32, nan32, 0}));
  reference::layer_norm({}, 2, 1, x, gain, gain, y, mean, root);
  CHECK(bits(y) == bits(std::vector<float>{1, 1, nan32, nan32, nan32, nan32}));
  for (const float eps : {-1.0F, inf32, nan32}) {
    ZP_CHECK_INVALID(reference::rms_norm({}, 2, eps, x, gain, y, root));
    ZP_CHECK_INVALID(reference::layer_norm({}, 2, eps, x, gain, gain, y, mean, root));
  }
  const Span<float> two = Span<float>(root).first(2);
  ZP_CHECK_INVALID(reference::rms_norm({}, 0, 1, x, gain, y, root));
  ZP_CHECK_INVALID(reference::rms_norm({}, 4, 1, x, gain, y, root));
  ZP_CHECK_INVALID(reference::rms_norm({}, 2, 1, x, gain, y, two));
  ZP_CHECK_INVALID(reference::rms_norm({}, 3, 1, x, gain, y, two));
  ZP_CHECK_INVALID(reference::layer_norm({}, 2, 1, x, gain, gain, y, two, root));
  ZP_CHECK_INVALID(reference::layer_norm({}, 2, 1, x, gain, x, y, mean, root));
  ZP_CHECK_INVALID(reference::rms_norm_backward({}, 2, x, x, gain, root, y, two.first(1)));
  ZP_CHECK_INVALID(
      reference::layer_norm_backward({}, 2, x, x, gain, mean, root, y, d_gain, two.first(1)));
}

TEST_CASE("slopes: norm layers equal differences") {
  constexpr std::size_t rows = 5, n = 12;
  const std::vector<float> x = random_values(rows * n, 1, 2), dy = random_values(rows * n, 2, 2),
                           gain = random_values(n, 3, 1), bias(n, 0.5F);
  std::vector<float> y(x.size()), mean(rows), root(rows), dx(x.size()), d_gain(n), d_bias(n);
  const auto loss = [&](const Wide& at, const Wide& gains, const Wide& biases, bool centred) {
    double sum = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      double middle = 0, square = 0;
      for (std::size_t j = 0; j < n && centred; ++j) middle += at[r * n + j] / n;
      for (std::size_t j = 0; j < n; ++j)
        square += (at[r * n + j] - middle) * (at[r * n + j] - middle) / n;
      for (std::size_t j = 0; j < n; ++j) {
        const double u = (at[r * n + j] - middle) / std::sqrt(square + double{0.1F});
        sum += double{dy[r * n + j]} * (u * gains[j] + biases[j]);
      }
    }
    return sum;
  };
  const Wide zeros(n, 0.0);
  reference::rms_norm({}, n, 0.1F, x, gain, y, root);
  reference::rms_norm_backward({}, n, dy, x, gain, root, dx, d_gain);
  CHECK(worst_slope_error([&](const Wide& at) { return loss(at, wide(gain), zeros, false); }, x,
                          dx) < allowed);
  CHECK(worst_slope_error([&](const Wide& at) { return loss(wide(x), at, zeros, false); }, gain,
                          d_gain) < allowed);
  reference::layer_norm({}, n, 0.1F, x, gain, bias, y, mean, root);
  reference::layer_norm_backward({}, n, dy, x, gain, mean, root, dx, d_gain, d_bias);
  CHECK(worst_slope_error([&](const Wide& at) { return loss(at, wide(gain), zeros, true); }, x,
                          dx) < allowed);
  CHECK(worst_slope_error([&](const Wide& at) { return loss(wide(x), at, zeros, true); }, gain,
                          d_gain) < allowed);
  CHECK(worst_slope_error([&](const Wide& at) { return loss(wide(x), wide(gain), at, true); }, bias,
                          d_bias) < allowed);
}

}  // namespace norm_layers_test
