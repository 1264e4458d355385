#pragma once
// Softmax of rows and its gradients, for the implementations of the host and those of the device.

#include <doctest.h>

#include <cmath>

#include "common/contracts/softmax.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/cuda/layers/layer_support.hpp"

namespace zeroproof::tests {

struct SoftmaxImplementations {
  CausalSoftmaxFn* causal;
  CausalSoftmaxBackwardFn* causal_backward;
  MaskedSoftmaxFn* masked;
  MaskedSoftmaxBackwardFn* masked_backward;
  SinkSoftmaxFn* sink;
  SinkSoftmaxBackwardFn* sink_backward;
};

inline void check_softmax_by_hand(const SoftmaxImplementations& implementations, const Exec& exec) {
  const float inf = HUGE_VALF, nan = std::nanf("");
  using Values = std::vector<float>;
  // Elements masked in row 0 may have any value.
  Values y(4, nan), dx(4, nan);
  implementations.causal(exec, 2, 3.0F, Values{-5, nan, 7, 7}, y);
  CHECK(y == Values{1, 0, 0.5F, 0.5F});
  CHECK_FALSE(std::signbit(y[1]));
  implementations.causal(exec, 2, 1.0F, Values{0, 0, 0, -200}, y);
  CHECK(y == Values{1, 0, 1, 0});
  // Row 1: a = (1, 0), s = 1, c = (1 - 1/2, 0 - 1/2), times 2.
  implementations.causal_backward(exec, 2, 2.0F, Values{3, nan, 2, 0}, Values{1, nan, 0.5F, 0.5F},
                                  dx);
  CHECK(dx == Values{0, 0, 1, -1});
  CHECK_FALSE(std::signbit(dx[1]));
  Values one(1);
  for (const float bad : {inf, -inf, nan}) {
    implementations.causal(exec, 1, 1.0F, Values{bad}, one);
    CHECK(std::isnan(one[0]));
  }

  const std::vector<std::uint8_t> mask = {0, 255, 1, 2};
  implementations.masked(exec, 2, 1.0F, Values{5, nan, nan, inf}, mask, y);
  CHECK(y == Values{1, 0, 0, 0});
  CHECK_FALSE(std::signbit(y[2]));
  // masked_score is a number: another score of that value shares with it.
  Values two(2);
  implementations.masked(exec, 2, 2.0F, Values{-5000, 1}, {mask.data(), 2}, two);
  CHECK(two == Values{0.5F, 0.5F});
  // a = (1, 1): s = 2, b = 1. The masked element counts in the sum.
  implementations.masked_backward(exec, 2, 1.0F, Values{4, 2}, Values{0.5F, 0.5F}, {mask.data(), 2},
                                  two);
  CHECK(two == Values{2.0F - 1.5F, 0});
  implementations.masked_backward(exec, 2, 1.0F, Values{nan, inf}, Values{0, 0},
                                  {mask.data() + 2, 2}, two);
  CHECK(two == Values{0, 0});

  // Two batches of two heads with one position: the sink of head 0 takes half, that of head 1 nothing.
  Values share(4), d_sink(2);
  const Values sink = {2, -inf};
  implementations.sink(exec, 1, 1, 1.0F, Values{2, 9, 2, -9}, sink, y, share);
  CHECK(y == Values{0.5F, 1, 0.5F, 1});
  CHECK(share == Values{0.5F, 0, 0.5F, 0});
  // Rows 0 and 2 are head 0: s = 4 / 2, z = -1; s = 8 / 2, z = -2.
  implementations.sink_backward(exec, 1, 1, 2.0F, Values{4, 1, 8, 1}, y, share, dx, d_sink);
  CHECK(dx == Values{2, 0, 4, 0});
  CHECK(d_sink == Values{-3, 0});
  implementations.sink_backward(exec, 1, 1, 2.0F, {}, {}, {}, {}, d_sink);
  CHECK(d_sink == Values{0, 0});
}

/// Scores 0: 1 / n, for any blocks. Blocks of two of 2^24 and ones, as in a sum of weights.
inline void check_softmax_order(const SoftmaxImplementations& implementations, const Exec& exec) {
  std::vector<float> x(16), y(16, 1.0F), dx(16);
  x[0] = 0x1p24F;
  x[1] = x[2] = x[3] = 1.0F;
  const std::vector<std::uint8_t> open(16);
  implementations.masked_backward(exec, 16, 1.0F, x, y, open, dx);
  CHECK(dx[15] == -(0x1p24F + 2.0F));
}

struct SoftmaxRow {
  std::vector<float> y;
  float k, s;
};

/// Softmax of the values of one row, those beyond `seen` counting +0.
inline SoftmaxRow softmax_row(std::int64_t n, std::int64_t seen,
                              const std::function<float(std::int64_t)>& value, const float* sink) {
  float m = sink == nullptr ? value(0) : *sink;
  for (std::int64_t j = 0; j < seen; ++j) {
    if (std::isnan(value(j)) || value(j) > m) m = value(j);
    if (std::isnan(m)) break;
  }
  SoftmaxRow row{std::vector<float>(n), 0.0F, 0.0F};
  for (std::int64_t j = 0; j < seen; ++j) row.y[j] = rounded_exp(value(j) - m);
  row.s = sum_in_blocks(n, [&](std::int64_t j) { return row.y[j]; });
  if (sink != nullptr) {
    row.k = rounded_exp(*sink - m);
    row.s = row.s + row.k;
  }
  for (std::int64_t j = 0; j < seen; ++j) row.y[j] /= row.s;
  return row;
}

/// Scores with some special values in some rows, so that the other rows stay ordinary.
inline Place<float> scores(std::int64_t rows, std::int64_t n, int offset, std::uint64_t stream) {
  Place<float> x = filled(rows * n, offset, stream, false);
  for (float& value : x.span()) value *= 8.0F;
  const float rare[] = {HUGE_VALF, -HUGE_VALF, std::nanf(""), 0x1p127F, -0.0F, 1e-42F};
  for (std::int64_t r = 5; r < rows; r += 4) {
    const std::uint32_t bits = device_test::hash(static_cast<std::uint64_t>(r), stream);
    x.span()[r * n + bits % n] = rare[bits / 64 % 6];
  }
  return x;
}

inline float backward_value(float scale, float dy, float y, float s) {
  const float a = dy * y;
  const float b = y * s;
  return scale * (a - b);
}

inline void check_causal_shape(const SoftmaxImplementations& implementations, const Exec& exec,
                               std::int64_t n, std::int64_t matrices, int offset) {
  const float scale = 0.3F;
  const std::int64_t rows = matrices * n;
  const auto x = scores(rows, n, offset, 1), dy = filled(rows * n, 1, 2, offset == 3);
  Place<float> y(rows * n, offset), dx(rows * n, 3 - offset);
  implementations.causal(exec, n, scale, x.span(), y.span());
  implementations.causal_backward(exec, n, scale, dy.span(), y.span(), dx.span());
  std::vector<SoftmaxRow> expected;
  std::vector<float> sums;
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto value = [&](std::int64_t j) { return scale * x[r * n + j]; };
    expected.push_back(softmax_row(n, r % n + 1, value, nullptr));
    sums.push_back(sum_in_blocks(
        n, [&](std::int64_t j) { return j <= r % n ? dy[r * n + j] * y[r * n + j] : 0.0F; }));
  }
  y.check([&](std::int64_t i) { return expected[i / n].y[i % n]; });
  dx.check([&](std::int64_t i) {
    if (i % n > i / n % n) return 0.0F;
    return backward_value(scale, dy[i], y[i], sums[i / n]);
  });
}

inline void check_masked_shape(const SoftmaxImplementations& implementations, const Exec& exec,
                               const Shape& s, int offset) {
  const float scale = -0.7F;
  const auto x = scores(s.rows, s.n, offset, 3), dy = filled(s.rows * s.n, 1, 4, offset == 3);
  Place<std::uint8_t> mask(s.rows * s.n, offset);
  for (std::int64_t i = 0; i < s.rows * s.n; ++i) {
    const std::uint32_t bits = device_test::hash(static_cast<std::uint64_t>(i), 5);
    const bool masked = i / s.n % 7 == 3 || bits % 3 == 0;
    mask.span()[i] = static_cast<std::uint8_t>(masked ? bits / 3 % 255 + 1 : 0);
  }
  Place<float> y(s.rows * s.n, offset), dx(s.rows * s.n, 3 - offset);
  implementations.masked(exec, s.n, scale, x.span(), mask.span(), y.span());
  implementations.masked_backward(exec, s.n, scale, dy.span(), y.span(), mask.span(), dx.span());
  std::vector<SoftmaxRow> expected;
  std::vector<float> sums;
  for (std::int64_t r = 0; r < s.rows; ++r) {
    bool open = false;
    for (std::int64_t j = 0; j < s.n; ++j) open = open || mask[r * s.n + j] == 0;
    const auto value = [&](std::int64_t j) {
      return mask[r * s.n + j] != 0 ? masked_score : scale * x[r * s.n + j];
    };
    expected.push_back(softmax_row(s.n, s.n, value, nullptr));
    if (!open) expected.back().y.assign(static_cast<std::size_t>(s.n), 0.0F);
    sums.push_back(
        sum_in_blocks(s.n, [&](std::int64_t j) { return dy[r * s.n + j] * y[r * s.n + j]; }));
  }
  y.check([&](std::int64_t i) { return expected[i / s.n].y[i % s.n]; });
  dx.check([&](std::int64_t i) {
    if (mask[i] != 0) return 0.0F;
    return backward_value(scale, dy[i], y[i], sums[i / s.n]);
  });
}

inline void check_sink_shape(const SoftmaxImplementations& implementations, const Exec& exec,
                             std::int64_t batches, std::int64_t heads, std::int64_t positions,
                             std::int64_t n, int offset) {
  const float scale = 0.5F;
  const std::int64_t rows = batches * heads * positions;
  const auto x = scores(rows, n, offset, 6), dy = filled(rows * n, 1, 7, false);
  auto sink = filled(heads, offset, 8, false);
  if (heads > 2) sink.span()[2] = 50.0F;  // larger than every score
  if (heads > 3) sink.span()[3] = -HUGE_VALF;
  Place<float> y(rows * n, offset), share(rows, 1), dx(rows * n, 2), d_sink(heads, offset);
  implementations.sink(exec, positions, n, scale, x.span(), sink.span(), y.span(), share.span());
  implementations.sink_backward(exec, positions, n, scale, dy.span(), y.span(), share.span(),
                                dx.span(), d_sink.span());
  std::vector<SoftmaxRow> expected;
  std::vector<float> sums;
  for (std::int64_t r = 0; r < rows; ++r) {
    const float own = sink[r / positions % heads];
    const auto value = [&](std::int64_t j) { return scale * x[r * n + j]; };
    expected.push_back(softmax_row(n, n, value, &own));
    sums.push_back(sum_in_blocks(n, [&](std::int64_t j) { return dy[r * n + j] * y[r * n + j]; }));
  }
  y.check([&](std::int64_t i) { return expected[i / n].y[i % n]; });
  share.check([&](std::int64_t r) {
    const SoftmaxRow& row = expected[r];
    return row.k / row.s;
  });
  dx.check([&](std::int64_t i) { return backward_value(scale, dy[i], y[i], sums[i / n]); });
  d_sink.check([&](std::int64_t h) {
    return sum_in_blocks(batches * positions, [&](std::int64_t i) {
      const std::int64_t r = (i / positions * heads + h) * positions + i % positions;
      return -(share[r] * sums[r]);
    });
  });
}

inline void check_softmax_shapes(const SoftmaxImplementations& implementations, const Exec& exec) {
  for (const int offset : {0, 1, 3}) {
    CAPTURE(offset);
    for (const std::int64_t n : {1, 2, 7, 8, 9, 17, 33, 100}) {
      CAPTURE(n);
      check_causal_shape(implementations, exec, n, n % 4, offset);
      check_causal_shape(implementations, exec, n, 2, offset);
      check_sink_shape(implementations, exec, 2, 3, 5, n, offset);
      check_sink_shape(implementations, exec, 3, 4, 1, n, offset);
    }
    check_sink_shape(implementations, exec, 1, 1, 37, 130, offset);
    check_sink_shape(implementations, exec, 0, 2, 3, 4, offset);
    check_sink_shape(implementations, exec, 5, 5, 9, 100, offset);
    for (const Shape& shape : shapes()) {
      CAPTURE(shape.n);
      check_masked_shape(implementations, exec, shape, offset);
    }
  }
}

inline void check_softmax_refused(const SoftmaxImplementations& implementations, const Exec& exec) {
  std::vector<float> twelve(12), four(4), three(3), two(2);
  std::vector<std::uint8_t> mask(4), short_mask(3);
  const auto refused = [](const std::function<void()>& call) {
    expect_error(ErrorCode::invalid_argument, call);
  };
  CHECK_NOTHROW(implementations.causal(exec, 2, HUGE_VALF, four, four));
  refused([&] { implementations.causal(exec, 0, 1.0F, {}, {}); });
  refused([&] { implementations.causal(exec, 3, 1.0F, four, four); });
  refused([&] { implementations.causal(exec, 3, 1.0F, twelve, twelve); });  // four rows of three
  refused([&] { implementations.causal(exec, 2, 1.0F, four, three); });
  refused([&] { implementations.causal_backward(exec, -1, 1.0F, {}, {}, {}); });
  refused([&] { implementations.causal_backward(exec, 2, 1.0F, three, four, four); });
  refused([&] { implementations.causal_backward(exec, 2, 1.0F, four, four, three); });
  refused([&] { implementations.causal_backward(exec, 3, 1.0F, twelve, twelve, twelve); });
  refused([&] { implementations.masked(exec, 0, 1.0F, {}, {}, {}); });
  refused([&] { implementations.masked(exec, 3, 1.0F, four, mask, four); });
  refused([&] { implementations.masked(exec, 2, 1.0F, four, short_mask, four); });
  refused([&] { implementations.masked(exec, 2, 1.0F, four, mask, three); });
  refused([&] { implementations.masked_backward(exec, 2, 1.0F, three, four, mask, four); });
  refused([&] { implementations.masked_backward(exec, 2, 1.0F, four, four, short_mask, four); });
  refused([&] { implementations.masked_backward(exec, 2, 1.0F, four, four, mask, three); });
  CHECK_NOTHROW(implementations.sink(exec, 1, 2, 1.0F, four, two, four, two));
  refused([&] { implementations.sink(exec, 1, 0, 1.0F, {}, two, {}, {}); });
  refused([&] { implementations.sink(exec, 0, 2, 1.0F, four, two, four, two); });
  refused([&] { implementations.sink(exec, 1, 2, 1.0F, four, {}, four, two); });
  refused([&] { implementations.sink(exec, 2, 2, 1.0F, four, two, four, two); });
  refused([&] { implementations.sink(exec, 1, 2, 1.0F, four, two, three, two); });
  refused([&] { implementations.sink(exec, 1, 2, 1.0F, four, two, four, three); });
  refused([&] { implementations.sink_backward(exec, 1, 2, 1.0F, four, four, three, four, two); });
  refused([&] { implementations.sink_backward(exec, 1, 2, 1.0F, three, four, two, four, two); });
  refused([&] { implementations.sink_backward(exec, 1, 2, 1.0F, four, four, two, three, two); });
  refused([&] { implementations.sink_backward(exec, 1, 2, 1.0F, four, four, two, four, {}); });
}

}  // namespace zeroproof::tests
