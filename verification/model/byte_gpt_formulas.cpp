#include "verification/model/byte_gpt_formulas.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "verification/model/blocked_sum.hpp"
#include "verification/model/portable_math.hpp"

namespace zeroproof::workload::formulas {
namespace {

double sigmoid(double x) { return 1.0 / (1.0 + exp_f64(-x)); }

}  // namespace

void rms_norm(const Exec&, std::int64_t n, double eps, Span<const double> x,
              Span<const double> gain, Span<double> y, Span<double> deviation) {
  for (std::int64_t r = 0; r < numel(deviation); ++r) {
    const double* in = x.data() + r * n;
    const double squares = blocked_sum<double>(n, [&](std::int64_t j) { return in[j] * in[j]; });
    const double root = std::sqrt(squares / static_cast<double>(n) + eps);
    deviation.data()[r] = root;
    for (std::int64_t j = 0; j < n; ++j) y.data()[r * n + j] = in[j] / root * gain.data()[j];
  }
}

void rms_norm_backward(const Exec&, std::int64_t n, Span<const double> dy, Span<const double> x,
                       Span<const double> gain, Span<const double> deviation, Span<double> dx,
                       Span<double> d_gain) {
  const std::int64_t rows = numel(deviation);
  for (std::int64_t r = 0; r < rows; ++r) {
    const double root = deviation.data()[r];
    const auto u = [&](std::int64_t j) { return x.data()[r * n + j] / root; };
    const auto g = [&](std::int64_t j) { return dy.data()[r * n + j] * gain.data()[j]; };
    const double slope = blocked_sum<double>(n, [&](std::int64_t j) { return g(j) * u(j); }) /
                         static_cast<double>(n);
    for (std::int64_t j = 0; j < n; ++j) dx.data()[r * n + j] = (g(j) - u(j) * slope) / root;
  }
  for (std::int64_t j = 0; j < n; ++j) {
    d_gain.data()[j] = blocked_sum<double>(rows, [&](std::int64_t r) {
      return dy.data()[r * n + j] * (x.data()[r * n + j] / deviation.data()[r]);
    });
  }
}

void swiglu(const Exec&, std::int64_t columns, double, Span<const double> x, Span<const double>,
            Span<const double>, Span<double> y) {
  for (std::int64_t i = 0; i < numel(y); ++i) {
    const double* gate = x.data() + i / columns * (2 * columns) + i % columns;
    y.data()[i] = gate[0] * sigmoid(gate[0]) * gate[columns];
  }
}

void swiglu_backward(const Exec&, std::int64_t columns, double, Span<const double> dy,
                     Span<const double> x, Span<const double>, Span<const double>, Span<double> dx,
                     Span<double>) {
  for (std::int64_t i = 0; i < numel(dy); ++i) {
    const std::int64_t at = i / columns * (2 * columns) + i % columns;
    const double u = x.data()[at];
    const double v = x.data()[at + columns];
    const double s = sigmoid(u);
    dx.data()[at] = dy.data()[i] * v * (s * (1.0 + u * (1.0 - s)));
    dx.data()[at + columns] = dy.data()[i] * (u * s);
  }
}

void causal_softmax(const Exec&, std::int64_t n, double scale, Span<const double> x,
                    Span<double> y) {
  std::vector<double> e(n);
  for (std::int64_t r = 0; r < numel(x) / n; ++r) {
    const double* in = x.data() + r * n;
    double* out = y.data() + r * n;
    const std::int64_t seen = r % n + 1;
    double largest = scale * in[0];
    for (std::int64_t j = 1; j < seen; ++j) largest = std::max(largest, scale * in[j]);
    for (std::int64_t j = 0; j < seen; ++j) e[j] = exp_f64(scale * in[j] - largest);
    const double sum = blocked_prefix_sum<double>(n, seen, [&](std::int64_t j) { return e[j]; });
    for (std::int64_t j = 0; j < seen; ++j) out[j] = e[j] / sum;
    std::fill(out + seen, out + n, 0.0);
  }
}

void causal_softmax_backward(const Exec&, std::int64_t n, double scale, Span<const double> dy,
                             Span<const double> y, Span<double> dx) {
  for (std::int64_t r = 0; r < numel(y) / n; ++r) {
    const double* d = dy.data() + r * n;
    const double* p = y.data() + r * n;
    double* out = dx.data() + r * n;
    const std::int64_t seen = r % n + 1;
    const double sum =
        blocked_prefix_sum<double>(n, seen, [&](std::int64_t j) { return d[j] * p[j]; });
    for (std::int64_t j = 0; j < seen; ++j) out[j] = scale * (d[j] * p[j] - p[j] * sum);
    std::fill(out + seen, out + n, 0.0);
  }
}

}  // namespace zeroproof::workload::formulas
