#pragma once
// The norms of rows, for the implementations of the host and those of the device.

#include <doctest.h>

#include <cmath>

#include "common/contracts/norm_layers.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/cuda/layers/layer_support.hpp"

namespace zeroproof::tests {

struct NormImplementations {
  RmsNormFn* rms_norm;
  RmsNormBackwardFn* rms_norm_backward;
  LayerNormFn* layer_norm;
  LayerNormBackwardFn* layer_norm_backward;
};

/// Numbers that need no rounding but one, 7 / 5.
inline void check_norms_by_hand(const NormImplementations& implementations, const Exec& exec) {
  const std::vector<float> x = {1, 7}, gain = {2, 4};
  std::vector<float> y(2), deviation(1);
  implementations.rms_norm(exec, 2, 0.0F, x, gain, y, deviation);  // (1 + 49) / 2 = 25
  CHECK(deviation[0] == 5.0F);
  CHECK(y == std::vector<float>{0.4F, 5.6F});
  implementations.rms_norm(exec, 2, 11.0F, x, gain, y, deviation);
  CHECK(deviation[0] == 6.0F);

  // u = (1, 7) / 5, g = (5, 0), h = (1, 0), k = 1/2: (5 - 1/10, -7/10) / 5
  const std::vector<float> dy = {2.5F, 0};
  const std::vector<float> five = {5};
  std::vector<float> dx(2), d_gain(2);
  implementations.rms_norm_backward(exec, 2, dy, x, gain, five, dx, d_gain);
  CHECK(d_gain == std::vector<float>{0.5F, 0.0F});
  CHECK(dx == std::vector<float>{(5.0F - 0.1F) / 5.0F, -0.7F / 5.0F});

  const std::vector<float> four = {1, 1, 5, 5}, gains = {1, 2, 1, 2}, bias = {0, 10, 0, 10};
  std::vector<float> out(4), mean(1);
  implementations.layer_norm(exec, 4, 0.0F, four, gains, bias, out, mean, deviation);
  CHECK(mean[0] == 3.0F);
  CHECK(deviation[0] == 2.0F);
  CHECK(out == std::vector<float>{-1, 8, 1, 12});

  // u = (-1, -1, 1, 1), g = (8, 0, 0, 0), l = 2, k = -2
  const std::vector<float> grad = {8, 0, 0, 0}, ones(4, 1.0F);
  std::vector<float> d_x(4), d_gains(4), d_bias(4);
  implementations.layer_norm_backward(exec, 4, grad, four, ones, mean, deviation, d_x, d_gains,
                                      d_bias);
  CHECK(d_x == std::vector<float>{2, -2, 0, 0});
  CHECK(d_gains == std::vector<float>{-8, 0, 0, 0});
  CHECK(d_bias == grad);

  // Results of the operations: 0 / 0.
  const std::vector<float> zeros(2);
  implementations.rms_norm(exec, 2, 0.0F, zeros, gain, y, deviation);
  CHECK(deviation[0] == 0.0F);
  CHECK(std::isnan(y[0]));
  CHECK(std::isnan(y[1]));
}

/// Blocks of two: 2^24 swallows the 1 of its own block, and not the 2 of the next one.
inline void check_norm_order(const NormImplementations& implementations, const Exec& exec) {
  std::vector<float> x(16), y(16), mean(1), deviation(1);
  const std::vector<float> ones(16, 1.0F), zeros(16);
  x[0] = 0x1p12F;
  x[1] = x[2] = x[3] = 1.0F;
  implementations.rms_norm(exec, 16, 0.0F, x, ones, y, deviation);
  CHECK(deviation[0] == std::sqrt((0x1p24F + 2.0F) / 16.0F));
  x[0] = 0x1p24F;
  implementations.layer_norm(exec, 16, 0.0F, x, ones, zeros, y, mean, deviation);
  CHECK(mean[0] == (0x1p24F + 2.0F) / 16.0F);
}

inline void check_rms_shape(const NormImplementations& implementations, const Exec& exec,
                            const Shape& s, int offset, bool special) {
  const std::int64_t numel = s.rows * s.n;
  const float width = static_cast<float>(s.n), eps = 1e-5F;
  const auto x = filled(numel, offset, 1, special), gain = filled(s.n, offset, 2, special);
  const auto dy = filled(numel, 1, 3, special);
  Place<float> y(numel, 0), deviation(s.rows, 1), dx(numel, offset), d_gain(s.n, 3);
  implementations.rms_norm(exec, s.n, eps, x.span(), gain.span(), y.span(), deviation.span());
  implementations.rms_norm_backward(exec, s.n, dy.span(), x.span(), gain.span(), deviation.span(),
                                    dx.span(), d_gain.span());
  deviation.check([&](std::int64_t r) {
    const float sum =
        sum_in_blocks(s.n, [&](std::int64_t j) { return x[r * s.n + j] * x[r * s.n + j]; });
    return std::sqrt(sum / width + eps);
  });
  const auto u = [&](std::int64_t i) { return x[i] / deviation[i / s.n]; };
  const auto g = [&](std::int64_t i) { return dy[i] * gain[i % s.n]; };
  y.check([&](std::int64_t i) { return u(i) * gain[i % s.n]; });
  std::vector<float> k;
  for (std::int64_t r = 0; r < s.rows; ++r) {
    k.push_back(
        sum_in_blocks(s.n, [&](std::int64_t j) { return g(r * s.n + j) * u(r * s.n + j); }) /
        width);
  }
  dx.check([&](std::int64_t i) { return (g(i) - u(i) * k[i / s.n]) / deviation[i / s.n]; });
  d_gain.check([&](std::int64_t j) {
    return sum_in_blocks(s.rows, [&](std::int64_t r) { return dy[r * s.n + j] * u(r * s.n + j); });
  });
}

inline void check_layer_norm_shape(const NormImplementations& implementations, const Exec& exec,
                                   const Shape& s, int offset, bool special) {
  const std::int64_t numel = s.rows * s.n;
  const float width = static_cast<float>(s.n), eps = 0x1p-10F;
  const auto x = filled(numel, offset, 4, special), gain = filled(s.n, 0, 5, special);
  const auto bias = filled(s.n, offset, 6, special), dy = filled(numel, offset, 7, special);
  Place<float> y(numel, offset), mean(s.rows, 0), deviation(s.rows, 1), dx(numel, 2);
  Place<float> d_gain(s.n, 0), d_bias(s.n, offset);
  implementations.layer_norm(exec, s.n, eps, x.span(), gain.span(), bias.span(), y.span(),
                             mean.span(), deviation.span());
  implementations.layer_norm_backward(exec, s.n, dy.span(), x.span(), gain.span(), mean.span(),
                                      deviation.span(), dx.span(), d_gain.span(), d_bias.span());
  mean.check([&](std::int64_t r) {
    return sum_in_blocks(s.n, [&](std::int64_t j) { return x[r * s.n + j]; }) / width;
  });
  const auto c = [&](std::int64_t i) { return x[i] - mean[i / s.n]; };
  deviation.check([&](std::int64_t r) {
    const float sum =
        sum_in_blocks(s.n, [&](std::int64_t j) { return c(r * s.n + j) * c(r * s.n + j); });
    return std::sqrt(sum / width + eps);
  });
  const auto u = [&](std::int64_t i) { return c(i) / deviation[i / s.n]; };
  const auto g = [&](std::int64_t i) { return dy[i] * gain[i % s.n]; };
  y.check([&](std::int64_t i) { return u(i) * gain[i % s.n] + bias[i % s.n]; });
  std::vector<float> l, k;
  for (std::int64_t r = 0; r < s.rows; ++r) {
    const std::int64_t at = r * s.n;
    l.push_back(sum_in_blocks(s.n, [&](std::int64_t j) { return g(at + j); }) / width);
    k.push_back(sum_in_blocks(s.n, [&](std::int64_t j) { return g(at + j) * u(at + j); }) / width);
  }
  dx.check([&](std::int64_t i) {
    const auto r = static_cast<std::size_t>(i / s.n);
    return ((g(i) - l[r]) - u(i) * k[r]) / deviation[i / s.n];
  });
  d_gain.check([&](std::int64_t j) {
    return sum_in_blocks(s.rows, [&](std::int64_t r) { return dy[r * s.n + j] * u(r * s.n + j); });
  });
  d_bias.check([&](std::int64_t j) {
    return sum_in_blocks(s.rows, [&](std::int64_t r) { return dy[r * s.n + j]; });
  });
}

inline void check_norm_shapes(const NormImplementations& implementations, const Exec& exec) {
  for (const Shape& shape : shapes()) {
    for (const int offset : {0, 1, 3}) {
      CAPTURE(shape.rows);
      CAPTURE(shape.n);
      CAPTURE(offset);
      check_rms_shape(implementations, exec, shape, offset, offset == 3);
      check_layer_norm_shape(implementations, exec, shape, offset, offset == 3);
    }
  }
}

inline void check_norms_refused(const NormImplementations& implementations, const Exec& exec) {
  std::vector<float> six(6), three(3), two(2);
  const auto refused = [](const std::function<void()>& call) {
    expect_error(ErrorCode::invalid_argument, call);
  };
  CHECK_NOTHROW(implementations.rms_norm(exec, 3, 0.0F, six, three, six, two));
  refused([&] { implementations.rms_norm(exec, 0, 0.0F, six, {}, six, {}); });
  refused([&] { implementations.rms_norm(exec, -3, 0.0F, six, three, six, two); });
  refused([&] { implementations.rms_norm(exec, 4, 0.0F, six, six, six, two); });
  refused([&] { implementations.rms_norm(exec, 3, 0.0F, six, three, three, two); });
  refused([&] { implementations.rms_norm(exec, 3, 0.0F, six, two, six, two); });
  refused([&] { implementations.rms_norm(exec, 3, 0.0F, six, three, six, three); });
  for (const float eps : {-1e-6F, HUGE_VALF, std::nanf("")}) {
    refused([&] { implementations.rms_norm(exec, 3, eps, six, three, six, two); });
    refused([&] { implementations.layer_norm(exec, 3, eps, six, three, three, six, two, two); });
  }
  refused([&] { implementations.rms_norm_backward(exec, 0, six, six, {}, {}, six, {}); });
  refused([&] { implementations.rms_norm_backward(exec, 3, three, six, three, two, six, three); });
  refused([&] { implementations.rms_norm_backward(exec, 3, six, six, two, two, six, three); });
  refused([&] { implementations.rms_norm_backward(exec, 3, six, six, three, three, six, three); });
  refused([&] { implementations.rms_norm_backward(exec, 3, six, six, three, two, three, three); });
  refused([&] { implementations.rms_norm_backward(exec, 3, six, six, three, two, six, two); });
  refused([&] { implementations.layer_norm(exec, 3, 0.0F, six, three, two, six, two, two); });
  refused([&] { implementations.layer_norm(exec, 3, 0.0F, six, three, three, six, three, two); });
  refused([&] {
    implementations.layer_norm_backward(exec, 3, six, six, three, three, two, six, three, three);
  });
  refused([&] {
    implementations.layer_norm_backward(exec, 3, six, six, three, two, two, six, three, two);
  });
}

}  // namespace zeroproof::tests
