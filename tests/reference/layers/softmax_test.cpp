#include "reference/operations.hpp"
#include "tests/reference/layers/slopes_support.hpp"

namespace softmax_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

/// The error of a sum of shares, less than half a unit of fp32 for each of the `n` terms of a row.
double furthest_from_one(const std::vector<float>& shares, std::size_t n) {
  double furthest = 0;
  for (std::size_t r = 0; r * n < shares.size(); ++r) {
    double sum = 0;
    for (std::size_t j = 0; j < n; ++j) sum += double{shares[r * n + j]};
    furthest = std::max(furthest, std::fabs(sum - 1));
  }
  return furthest;
}

constexpr double allowed = 0x1p-19;  // of a gradient: some twenty roundings of 2^-24

}  // namespace

TEST_CASE("causal_softmax: by hand, rows use positions up to their own") {
  // Equal scores have equal shares; a score 200 below another one has none. Masked scores are not
  // read.
  const std::vector<float> x = {7,  nan32, inf32, 5, 5, nan32, 300, 100, 300,
                                -1, nan32, nan32, 2, 2, nan32, 4,   4,   4};
  std::vector<float> y(18, 9.0F);
  reference::causal_softmax({}, 3, 1, x, y);
  const float third = 1.0F / 3.0F;
  CHECK(bits(y) == bits(std::vector<float>{1, 0, 0, 0.5F, 0.5F, 0, 0.5F, 0, 0.5F, 1, 0, 0, 0.5F,
                                           0.5F, 0, third, third, third}));
  const std::vector<float> dy = {3, nan32, nan32, 2, 4, nan32, 2, 5, 6,
                                 3, nan32, nan32, 0, 0, nan32, 0, 0, 0};
  std::vector<float> dx(18, 9.0F);
  reference::causal_softmax_backward({}, 3, 0.5F, dy, y, dx);
  // a = 1, 2: s = 3: c = 1 - 1.5, 2 - 1.5.   a = 1, 0, 3: s = 4: c = 1 - 2, 0, 3 - 2.
  CHECK(bits(dx) == bits(std::vector<float>{0, 0, 0, -0.25F, 0.25F, 0, -0.5F, 0, 0.5F, 0, 0, 0, 0,
                                            0, 0, 0, 0, 0}));
}

TEST_CASE("softmax: NaN and infinities anywhere in a row, in any order") {
  for (std::size_t at = 0; at < 3; ++at) {
    std::vector<float> x = {1, 2, 3}, y(3);
    const std::vector<std::uint8_t> mask(3, 0);
    for (const float bad : {nan32, inf32}) {
      x[at] = bad;
      reference::masked_softmax({}, 3, 1, x, mask, y);
      for (const float share : y)
        CHECK(std::isnan(share));  // infinity less itself is NaN, and so is the sum
    }
    x[at] = -inf32;
    reference::masked_softmax({}, 3, 1, x, mask, y);
    CHECK(bits(y[at]) == bits(0.0F));
  }
}

TEST_CASE("masked_softmax: by hand, -10000 is a number, and a fully masked row is 0") {
  const std::vector<float> x = {1, nan32, 1, nan32, nan32, nan32, -20000, 0, -20000};
  const std::vector<std::uint8_t> mask = {0, 1, 0, 1, 7, 255, 0, 1, 0};
  std::vector<float> y(9), dx(9);
  reference::masked_softmax({}, 3, 1, x, mask, y);
  CHECK(bits(y) == bits(std::vector<float>{0.5F, 0, 0.5F, 0, 0, 0, 0, 1, 0}));
  const std::vector<float> dy = {2, 8, 4, nan32, inf32, 1, 5, 5, 5};
  reference::masked_softmax_backward({}, 3, 2, dy, y, mask, dx);
  CHECK(bits(dx) == bits(std::vector<float>{-1, 0, 1, 0, 0, 0, 0, 0, 0}));
}

TEST_CASE("sink_softmax: by hand, the sink has a share") {
  // Two heads of one position; sinks 0 and far below. exp(0) = 1 in each term.
  const std::vector<float> x = {0, 0, 0, 5, 5, 5}, sink = {0, -inf32};
  std::vector<float> y(6), share(2), dx(6), d_sink(2);
  reference::sink_softmax({}, 1, 3, 1, x, sink, y, share);
  const float third = 1.0F / 3.0F;
  CHECK(bits(y) == bits(std::vector<float>{0.25F, 0.25F, 0.25F, third, third, third}));
  CHECK(bits(share) == bits(std::vector<float>{0.25F, 0}));
  const std::vector<float> dy = {4, 8, 0, 0, 0, 0};
  reference::sink_softmax_backward({}, 1, 3, 1, dy, y, share, dx, d_sink);
  // a = 1, 2, 0: s = 3: c = 1 - 0.75, 2 - 0.75, -0.75; the sink loses 0.25 * 3.
  CHECK(bits(dx) == bits(std::vector<float>{0.25F, 1.25F, -0.75F, 0, 0, 0}));
  CHECK(bits(d_sink) == bits(std::vector<float>{-0.75F, 0}));
}

TEST_CASE("sink_softmax: rows use the sink of their head, in every batch") {
  // 2 batches, 2 heads, 3 positions, rows of one: y = 1 / (1 + exp(sink)), the sink's gradient
  // -share * y * dy.
  const std::vector<float> x(12, 0.0F), sink = {0, 1};
  std::vector<float> y(12), share(12), dx(12), d_sink(2);
  reference::sink_softmax({}, 3, 1, 1, x, sink, y, share);
  for (std::size_t r = 0; r < 12; ++r) CHECK((y[r] == 0.5F) == (r / 3 % 2 == 0));
  std::vector<float> dy(12, 0.0F);
  dy[7] = 8;  // batch 1, head 0
  reference::sink_softmax_backward({}, 3, 1, 1, dy, y, share, dx, d_sink);
  CHECK(bits(d_sink) == bits(std::vector<float>{-2, -0.0F + 0.0F}));
}

TEST_CASE("softmax: the shares of a row sum to 1") {
  const std::size_t n = 37;
  const std::vector<float> x = random_values(4 * 37 * 37, 7, 4);
  std::vector<float> y(x.size());
  reference::causal_softmax({}, 37, 0.3F, x, y);
  CHECK(furthest_from_one(y, n) < 40 * 0x1p-24);
}

TEST_CASE("slopes: softmax equals differences") {
  const std::size_t n = 9;
  const std::vector<float> x = random_values(2 * 81, 3, 2), dy = random_values(2 * 81, 4, 2);
  const float scale = 0.6F;
  std::vector<float> y(x.size()), dx(x.size());
  reference::causal_softmax({}, 9, scale, x, y);
  reference::causal_softmax_backward({}, 9, scale, dy, y, dx);
  const auto causal = [&](const Wide& at) {
    double loss = 0;
    for (std::size_t r = 0; r < 18; ++r) {
      double sum = 0, product = 0;
      for (std::size_t j = 0; j <= r % n; ++j) {
        const double e = std::exp(double{scale} * at[r * n + j]);
        sum += e;
        product += e * double{dy[r * n + j]};
      }
      loss += product / sum;
    }
    return loss;
  };
  CHECK(worst_slope_error(causal, x, dx) < allowed);

  // 2 batches, 3 heads, 3 positions.
  const std::vector<float> sink = {-0.5F, 0.25F, 1};
  std::vector<float> share(18), d_sink(3);
  reference::sink_softmax({}, 3, 9, scale, x, sink, y, share);
  reference::sink_softmax_backward({}, 3, 9, scale, dy, y, share, dx, d_sink);
  const auto sunk = [&](const Wide& at, const Wide& sinks) {
    double loss = 0;
    for (std::size_t r = 0; r < 18; ++r) {
      double sum = std::exp(sinks[r / 3 % 3]), product = 0;
      for (std::size_t j = 0; j < n; ++j) {
        const double e = std::exp(double{scale} * at[r * n + j]);
        sum += e;
        product += e * double{dy[r * n + j]};
      }
      loss += product / sum;
    }
    return loss;
  };
  CHECK(worst_slope_error([&](const Wide& at) { return sunk(at, wide(sink)); }, x, dx) < allowed);
  CHECK(worst_slope_error([&](const Wide& sinks) { return sunk(wide(x), sinks); }, sink, d_sink) <
        allowed);
}

TEST_CASE("softmax: views of wrong lengths are rejected") {
  const std::vector<float> x(12), sink(2);
  const std::vector<std::uint8_t> mask(12);
  std::vector<float> y(12), share(4), other(11);
  ZP_CHECK_INVALID(reference::causal_softmax({}, 0, 1, x, y));
  ZP_CHECK_INVALID(reference::causal_softmax({}, 3, 1, x, y));
  ZP_CHECK_INVALID(reference::causal_softmax({}, 2, 1, x, other));
  ZP_CHECK_INVALID(reference::causal_softmax_backward({}, 2, 1, other, x, y));
  ZP_CHECK_INVALID(reference::masked_softmax({}, 5, 1, x, mask, y));
  ZP_CHECK_INVALID(
      reference::masked_softmax({}, 3, 1, x, Span<const std::uint8_t>(mask).first(9), y));
  ZP_CHECK_INVALID(reference::masked_softmax_backward({}, 3, 1, x, other, mask, y));
  reference::sink_softmax({}, 2, 3, 1, x, sink, y, share);
  ZP_CHECK_INVALID(reference::sink_softmax({}, 2, 3, 1, x, sink, y, Span<float>(share).first(3)));
  ZP_CHECK_INVALID(reference::sink_softmax({}, 2, 3, 1, x, {}, y, share));
  ZP_CHECK_INVALID(reference::sink_softmax({}, 0, 3, 1, x, sink, y, share));
  ZP_CHECK_INVALID(reference::sink_softmax({}, 2, 4, 1, x, sink, y, share));
  ZP_CHECK_INVALID(
      reference::sink_softmax_backward({}, 2, 3, 1, x, x, share, other, Span<float>(y).first(2)));
}

}  // namespace softmax_test
