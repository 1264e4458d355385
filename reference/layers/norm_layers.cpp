#include <limits>
#include <string>

#include "common/base/error.hpp"
#include "reference/layers/row_reductions.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {
namespace {

void check_epsilon(const char* operation, float eps) {
  ZP_CHECK(eps >= 0 && eps <= std::numeric_limits<float>::max(), ErrorCode::invalid_argument,
           std::string(operation) + ": eps is " + text(eps), "it is added to the variance",
           "pass a finite number of at least 0");
}

/// The number of rows of `n` elements, the same in all views.
template <class... Views>
std::int64_t check_norm(const char* operation, std::int64_t n, std::size_t x_numel,
                        const Views&... views) {
  const std::int64_t rows = check_rows(operation, n, x_numel).rows;
  (check_same_numel(operation, "x", x_numel, "another view of rows", views.size()), ...);
  return rows;
}

/// The mean of a row: the sum of its values divided by their number.
template <class Values>
float mean_of(const Values& values) {
  return sum_of(values) / static_cast<float>(values.size());
}

}  // namespace

// [Fusion:rms]

void rms_norm(const Exec&, std::int64_t n, float eps, Span<const float> x, Span<const float> gain,
              Span<float> y, Span<float> deviation) {
  const std::int64_t rows = check_norm("rms_norm", n, x.size(), y);
  check_elements("rms_norm", "gain", gain.size(), n);
  check_elements("rms_norm", "deviation", deviation.size(), rows);
  check_epsilon("rms_norm", eps);
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto in = row_of(x, r, n);
    const Row q = in * in;
    const float v = mean_of(q);
    const float w = v + eps;
    const float root = std::sqrt(w);
    deviation[r] = root;
    const Row u = in / root;
    row_of(y, r, n) = u * as_array(gain);
  }
}

void rms_norm_backward(const Exec&, std::int64_t n, Span<const float> dy, Span<const float> x,
                       Span<const float> gain, Span<const float> deviation, Span<float> dx,
                       Span<float> d_gain) {
  const std::int64_t rows = check_norm("rms_norm_backward", n, x.size(), dy, dx);
  check_elements("rms_norm_backward", "gain", gain.size(), n);
  check_elements("rms_norm_backward", "d_gain", d_gain.size(), n);
  check_elements("rms_norm_backward", "deviation", deviation.size(), rows);
  Eigen::ArrayXXf products(n, rows);  // dy * u, a row in each column
  for (std::int64_t r = 0; r < rows; ++r) {
    const float root = deviation[r];
    const Row u = row_of(x, r, n) / root;
    const Row g = row_of(dy, r, n) * as_array(gain);
    const Row h = g * u;
    const float k = mean_of(h);
    const Row a = u * k;
    const Row b = g - a;
    row_of(dx, r, n) = b / root;
    products.col(r) = row_of(dy, r, n) * u;
  }
  sum_columns(rows, d_gain, [&](std::int64_t r, std::int64_t j) { return products(j, r); });
}

// [Fusion:layer_norm]

void layer_norm(const Exec&, std::int64_t n, float eps, Span<const float> x, Span<const float> gain,
                Span<const float> bias, Span<float> y, Span<float> mean, Span<float> deviation) {
  const std::int64_t rows = check_norm("layer_norm", n, x.size(), y);
  check_elements("layer_norm", "gain", gain.size(), n);
  check_elements("layer_norm", "bias", bias.size(), n);
  check_elements("layer_norm", "mean", mean.size(), rows);
  check_elements("layer_norm", "deviation", deviation.size(), rows);
  check_epsilon("layer_norm", eps);
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto in = row_of(x, r, n);
    const float middle = mean_of(in);
    const Row c = in - middle;
    const Row q = c * c;
    const float v = mean_of(q);
    const float w = v + eps;
    const float root = std::sqrt(w);
    mean[r] = middle;
    deviation[r] = root;
    const Row u = c / root;
    const Row p = u * as_array(gain);
    row_of(y, r, n) = p + as_array(bias);
  }
}

void layer_norm_backward(const Exec&, std::int64_t n, Span<const float> dy, Span<const float> x,
                         Span<const float> gain, Span<const float> mean,
                         Span<const float> deviation, Span<float> dx, Span<float> d_gain,
                         Span<float> d_bias) {
  const std::int64_t rows = check_norm("layer_norm_backward", n, x.size(), dy, dx);
  check_elements("layer_norm_backward", "gain", gain.size(), n);
  check_elements("layer_norm_backward", "d_gain", d_gain.size(), n);
  check_elements("layer_norm_backward", "d_bias", d_bias.size(), n);
  check_elements("layer_norm_backward", "mean", mean.size(), rows);
  check_elements("layer_norm_backward", "deviation", deviation.size(), rows);
  Eigen::ArrayXXf products(n, rows);  // dy * u, a row in each column
  for (std::int64_t r = 0; r < rows; ++r) {
    const float root = deviation[r];
    const Row c = row_of(x, r, n) - mean[r];
    const Row u = c / root;
    const Row g = row_of(dy, r, n) * as_array(gain);
    const float l = mean_of(g);
    const Row h = g * u;
    const float k = mean_of(h);
    const Row moved = g - l;
    const Row a = u * k;
    const Row b = moved - a;
    row_of(dx, r, n) = b / root;
    products.col(r) = row_of(dy, r, n) * u;
  }
  sum_columns(rows, d_gain, [&](std::int64_t r, std::int64_t j) { return products(j, r); });
  sum_columns(rows, d_bias, [&](std::int64_t r, std::int64_t j) { return row_of(dy, r, n)[j]; });
}

}  // namespace zeroproof::reference
