#include <string>

#include "common/base/error.hpp"
#include "reference/layers/row_reductions.hpp"
#include "reference/layers/scalar_math.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {
namespace {

/// The number of groups of `width` in `numel` elements. Throws invalid_argument unless they are
/// whole and width >= 1.
std::int64_t check_groups(const char* operation, std::int64_t width, std::size_t numel) {
  return check_rows(operation, width, numel).rows;
}

/// exp(v - m) [Fusion:softmax]: with the largest value subtracted, none overflows, and one is 1.
Row shifted_exp(const Row& v, float m) {
  const Row d = v - m;
  return d.unaryExpr(&scalar_math::exp_f32);
}

struct Slope {
  Row c;    ///< dy y - y s
  float s;  ///< the sum of dy y
};

/// The gradient through softmax [Fusion:softmax_backward]: each score affects all others. The sum
/// has the blocks of `terms` terms.
template <class View>
Slope softmax_slope(const View& dy, const View& y, std::int64_t terms) {
  const Row a = dy * y;
  const float s = sum_of(a, terms);
  const Row b = y * s;
  return {a - b, s};
}

/// The masked elements of a row.
Eigen::Array<bool, Eigen::Dynamic, 1> masked_in(Span<const std::uint8_t> mask, std::int64_t row,
                                                std::int64_t n) {
  const Span<const std::uint8_t> of_row = part(mask, row * n, n);
  return Eigen::Map<const Eigen::Array<std::uint8_t, Eigen::Dynamic, 1>>(of_row.data(), n) != 0;
}

struct SinkShape {
  std::int64_t rows, heads, positions;

  std::size_t head(std::int64_t row) const {
    return static_cast<std::size_t>(row / positions % heads);
  }
};

SinkShape check_sink(const char* operation, std::int64_t positions, std::int64_t n,
                     std::size_t heads, std::size_t x_numel, std::size_t share_numel) {
  check_groups(operation, n, 0);
  check_groups(operation, positions, 0);
  check_groups(operation, static_cast<std::int64_t>(heads), 0);
  const auto count = static_cast<std::int64_t>(heads);
  const std::int64_t batches = check_groups(operation, count * positions * n, x_numel);
  check_elements(operation, "sink_share", share_numel, batches * count * positions);
  return {batches * count * positions, count, positions};
}

}  // namespace

void causal_softmax(const Exec&, std::int64_t n, float scale, Span<const float> x, Span<float> y) {
  check_groups("causal_softmax", n, 0);
  const std::int64_t matrices = check_groups("causal_softmax", n * n, x.size());
  check_same_numel("causal_softmax", "x", x.size(), "y", y.size());
  for (std::int64_t r = 0; r < matrices * n; ++r) {
    const std::int64_t seen = r % n + 1;
    const Row v = scale * row_of(x, r, n).head(seen);
    const Row e = shifted_exp(v, largest_of(v));
    const float s = sum_of(e, n);
    auto out = row_of(y, r, n);
    out.head(seen) = e / s;
    out.tail(n - seen) = 0.0F;
  }
}

void causal_softmax_backward(const Exec&, std::int64_t n, float scale, Span<const float> dy,
                             Span<const float> y, Span<float> dx) {
  check_groups("causal_softmax_backward", n, 0);
  const std::int64_t matrices = check_groups("causal_softmax_backward", n * n, y.size());
  check_same_numel("causal_softmax_backward", "y", y.size(), "dy", dy.size());
  check_same_numel("causal_softmax_backward", "y", y.size(), "dx", dx.size());
  for (std::int64_t r = 0; r < matrices * n; ++r) {
    const std::int64_t seen = r % n + 1;
    const Row c = softmax_slope(row_of(dy, r, n).head(seen), row_of(y, r, n).head(seen), n).c;
    auto out = row_of(dx, r, n);
    out.head(seen) = scale * c;
    out.tail(n - seen) = 0.0F;
  }
}

// [Fusion:masked]

void masked_softmax(const Exec&, std::int64_t n, float scale, Span<const float> x,
                    Span<const std::uint8_t> mask, Span<float> y) {
  const std::int64_t rows = check_groups("masked_softmax", n, x.size());
  check_same_numel("masked_softmax", "x", x.size(), "mask", mask.size());
  check_same_numel("masked_softmax", "x", x.size(), "y", y.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto masked = masked_in(mask, r, n);
    auto out = row_of(y, r, n);
    if (masked.all()) {
      out = 0.0F;
      continue;
    }
    const Row scaled = scale * row_of(x, r, n);
    const Row v = masked.select(masked_score, scaled);
    const Row e = shifted_exp(v, largest_of(v));
    out = e / sum_of(e);
  }
}

void masked_softmax_backward(const Exec&, std::int64_t n, float scale, Span<const float> dy,
                             Span<const float> y, Span<const std::uint8_t> mask, Span<float> dx) {
  const std::int64_t rows = check_groups("masked_softmax_backward", n, y.size());
  check_same_numel("masked_softmax_backward", "y", y.size(), "dy", dy.size());
  check_same_numel("masked_softmax_backward", "y", y.size(), "mask", mask.size());
  check_same_numel("masked_softmax_backward", "y", y.size(), "dx", dx.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    const Row c = softmax_slope(row_of(dy, r, n), row_of(y, r, n), n).c;
    const Row scaled = scale * c;
    row_of(dx, r, n) = masked_in(mask, r, n).select(0.0F, scaled);
  }
}

// [Fusion:sink]

void sink_softmax(const Exec&, std::int64_t positions, std::int64_t n, float scale,
                  Span<const float> x, Span<const float> sink, Span<float> y,
                  Span<float> sink_share) {
  const SinkShape shape =
      check_sink("sink_softmax", positions, n, sink.size(), x.size(), sink_share.size());
  check_same_numel("sink_softmax", "x", x.size(), "y", y.size());
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    const float of_head = sink[shape.head(r)];
    const Row v = scale * row_of(x, r, n);
    const float m = largest_of(Eigen::Array2f(largest_of(v), of_head));
    const Row e = shifted_exp(v, m);
    const float k = scalar_math::exp_f32(of_head - m);
    const float t = sum_of(e);
    const float s = t + k;
    row_of(y, r, n) = e / s;
    sink_share[r] = k / s;
  }
}

void sink_softmax_backward(const Exec&, std::int64_t positions, std::int64_t n, float scale,
                           Span<const float> dy, Span<const float> y, Span<const float> sink_share,
                           Span<float> dx, Span<float> d_sink) {
  const SinkShape shape =
      check_sink("sink_softmax_backward", positions, n, d_sink.size(), y.size(), sink_share.size());
  check_same_numel("sink_softmax_backward", "y", y.size(), "dy", dy.size());
  check_same_numel("sink_softmax_backward", "y", y.size(), "dx", dx.size());
  Row z(shape.rows);
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    const Slope slope = softmax_slope(row_of(dy, r, n), row_of(y, r, n), n);
    row_of(dx, r, n) = scale * slope.c;
    z[r] = -(sink_share[r] * slope.s);
  }
  // Rows of one head: `positions` neighbours in every batch.
  const std::int64_t of_head = shape.rows / shape.heads;
  for (std::int64_t h = 0; h < shape.heads; ++h) {
    d_sink[h] = sum_in_blocks(of_head, [&](std::int64_t i) {
      return z[(i / positions * shape.heads + h) * positions + i % positions];
    });
  }
}

}  // namespace zeroproof::reference
