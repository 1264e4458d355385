#include "cuda/device/kernels/layers/column_sums.cuh"
#include "cuda/device/kernels/layers/row_threads.cuh"
#include "cuda/device/operations.hpp"
#include "cuda/host/layers/layer_checks.hpp"

namespace zeroproof::cuda::device {

namespace {

struct RmsNorm {
  const float* x;
  const float* gain;
  float* y;
  float* deviation;
  float width;
  float eps;

  ZP_DEVICE void row(const RowThread& thread) const {
    const float* const in = x + thread.row * thread.n;
    float* const out = y + thread.row * thread.n;
    const float s = thread.sum([&](std::int64_t j) { return in[j] * in[j]; });
    const float v = s / width;
    const float w = v + eps;
    const float root = sqrtf(w);
    thread.elements([&](std::int64_t j) {
      const float u = in[j] / root;
      out[j] = u * gain[j];
    });
    if (thread.here && thread.lane == 0) deviation[thread.row] = root;
  }
};

struct LayerNorm {
  const float* x;
  const float* gain;
  const float* bias;
  float* y;
  float* mean;
  float* deviation;
  float width;
  float eps;

  ZP_DEVICE void row(const RowThread& thread) const {
    const float* const in = x + thread.row * thread.n;
    float* const out = y + thread.row * thread.n;
    const float middle = thread.sum([&](std::int64_t j) { return in[j]; }) / width;
    const float t = thread.sum([&](std::int64_t j) {
      const float c = in[j] - middle;
      return c * c;
    });
    const float v = t / width;
    const float w = v + eps;
    const float root = sqrtf(w);
    thread.elements([&](std::int64_t j) {
      const float c = in[j] - middle;
      const float u = c / root;
      const float p = u * gain[j];
      out[j] = p + bias[j];
    });
    if (thread.here && thread.lane == 0) {
      mean[thread.row] = middle;
      deviation[thread.row] = root;
    }
  }
};

/// u of one row of either norm; rms subtracts nothing.
template <bool has_mean>
struct Normed {
  float mean;
  float deviation;

  ZP_DEVICE Normed(const float* means, const float* deviations, std::int64_t row)
      : mean(0.0F), deviation(deviations[row]) {
    if constexpr (has_mean) mean = means[row];
  }

  ZP_DEVICE float of(float x) const {
    if constexpr (has_mean) {
      const float c = x - mean;
      return c / deviation;
    } else {
      return x / deviation;
    }
  }
};

template <bool has_mean>
struct NormBackward {
  const float* dy;
  const float* x;
  const float* gain;
  const float* mean;  // not read by rms
  const float* deviation;
  float* dx;
  float width;

  ZP_DEVICE void row(const RowThread& thread) const {
    const std::int64_t begin = thread.row * thread.n;
    const Normed<has_mean> normed(mean, deviation, thread.row);
    float l = 0.0F;
    if constexpr (has_mean) {
      l = thread.sum([&](std::int64_t j) { return dy[begin + j] * gain[j]; }) / width;
    }
    const float s = thread.sum([&](std::int64_t j) {
      const float g = dy[begin + j] * gain[j];
      return g * normed.of(x[begin + j]);
    });
    const float k = s / width;
    thread.elements([&](std::int64_t j) {
      const float g = dy[begin + j] * gain[j];
      float rest = g;
      if constexpr (has_mean) rest = g - l;
      const float a = normed.of(x[begin + j]) * k;
      const float b = rest - a;
      dx[begin + j] = b / normed.deviation;
    });
  }
};

template <bool has_mean>
struct GainTerm {
  const float* dy;
  const float* x;
  const float* mean;
  const float* deviation;
  std::int64_t columns;

  ZP_DEVICE float value(std::int64_t r, std::int64_t j) const {
    const Normed<has_mean> normed(mean, deviation, r);
    return dy[r * columns + j] * normed.of(x[r * columns + j]);
  }
};

}  // namespace

void rms_norm(const Exec&, std::int64_t n, float eps, Span<const float> x, Span<const float> gain,
              Span<float> y, Span<float> deviation) {
  const std::int64_t rows =
      host::check_norm_layer("rms_norm", n, x.size(), {{"y", y.size()}}, {{"gain", gain.size()}},
                             {{"deviation", deviation.size()}});
  host::check_norm_eps("rms_norm", eps);
  run_rows(RmsNorm{x.data(), gain.data(), y.data(), deviation.data(), static_cast<float>(n), eps},
           rows, n);
}

void rms_norm_backward(const Exec&, std::int64_t n, Span<const float> dy, Span<const float> x,
                       Span<const float> gain, Span<const float> deviation, Span<float> dx,
                       Span<float> d_gain) {
  const std::int64_t rows = host::check_norm_layer(
      "rms_norm_backward", n, x.size(), {{"dy", dy.size()}, {"dx", dx.size()}},
      {{"gain", gain.size()}, {"d_gain", d_gain.size()}}, {{"deviation", deviation.size()}});
  run_rows(NormBackward<false>{dy.data(), x.data(), gain.data(), nullptr, deviation.data(),
                               dx.data(), static_cast<float>(n)},
           rows, n);
  run_column_sums(GainTerm<false>{dy.data(), x.data(), nullptr, deviation.data(), n}, rows, n,
                  d_gain.data());
}

void layer_norm(const Exec&, std::int64_t n, float eps, Span<const float> x, Span<const float> gain,
                Span<const float> bias, Span<float> y, Span<float> mean, Span<float> deviation) {
  const std::int64_t rows = host::check_norm_layer(
      "layer_norm", n, x.size(), {{"y", y.size()}}, {{"gain", gain.size()}, {"bias", bias.size()}},
      {{"mean", mean.size()}, {"deviation", deviation.size()}});
  host::check_norm_eps("layer_norm", eps);
  run_rows(LayerNorm{x.data(), gain.data(), bias.data(), y.data(), mean.data(), deviation.data(),
                     static_cast<float>(n), eps},
           rows, n);
}

void layer_norm_backward(const Exec&, std::int64_t n, Span<const float> dy, Span<const float> x,
                         Span<const float> gain, Span<const float> mean,
                         Span<const float> deviation, Span<float> dx, Span<float> d_gain,
                         Span<float> d_bias) {
  const std::int64_t rows = host::check_norm_layer(
      "layer_norm_backward", n, x.size(), {{"dy", dy.size()}, {"dx", dx.size()}},
      {{"gain", gain.size()}, {"d_gain", d_gain.size()}, {"d_bias", d_bias.size()}},
      {{"mean", mean.size()}, {"deviation", deviation.size()}});
  run_rows(NormBackward<true>{dy.data(), x.data(), gain.data(), mean.data(), deviation.data(),
                              dx.data(), static_cast<float>(n)},
           rows, n);
  run_column_sums(GainTerm<true>{dy.data(), x.data(), mean.data(), deviation.data(), n}, rows, n,
                  d_gain.data());
  run_column_sums(MatrixElement{dy.data(), n}, rows, n, d_bias.data());
}

}  // namespace zeroproof::cuda::device
