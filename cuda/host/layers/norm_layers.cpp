#include <vector>

#include "cuda/host/base/parallel_units.hpp"
#include "cuda/host/layers/layer_checks.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/host/simd/layer_kernels.hpp"

namespace zeroproof::cuda::host {
namespace {

/// Both gradients of a norm; d_bias is empty for rms.
void norm_layer_backward(const Exec& exec, std::int64_t n, std::int64_t rows, Span<const float> dy,
                         Span<const float> x, Span<const float> gain, const RowStats& stats,
                         Span<float> dx, Span<float> d_gain, Span<float> d_bias) {
  const LayerKernels& kernels = layer_kernels(exec.isa);
  parallel_units(exec, rows, n, [&](std::int64_t begin, std::int64_t end) {
    const RowStats from = {stats.mean == nullptr ? nullptr : stats.mean + begin,
                           stats.deviation + begin};
    kernels.norm_backward(n, end - begin, dy.data() + begin * n, x.data() + begin * n, gain.data(),
                          from, dx.data() + begin * n);
  });
  std::vector<float> gains(8 * n);
  std::vector<float> biases(d_bias.empty() ? 0 : gains.size());
  parallel_column_tiles(exec, rows, n,
                        [&](std::int64_t block, std::int64_t first_row, std::int64_t end_row,
                            std::int64_t first_column, std::int64_t end_column) {
                          kernels.norm_column_sums(
                              {n, first_row, end_row, first_column, end_column}, dy.data(),
                              x.data(), stats, gains.data() + block * n,
                              d_bias.empty() ? nullptr : biases.data() + block * n);
                        });
  kernels.fold_columns(gains.data(), n, d_gain.data());
  if (!d_bias.empty()) kernels.fold_columns(biases.data(), n, d_bias.data());
}

}  // namespace

void rms_norm(const Exec& exec, std::int64_t n, float eps, Span<const float> x,
              Span<const float> gain, Span<float> y, Span<float> deviation) {
  const std::int64_t rows =
      check_norm_layer("rms_norm", n, x.size(), {{"y", y.size()}}, {{"gain", gain.size()}},
                       {{"deviation", deviation.size()}});
  check_norm_eps("rms_norm", eps);
  const LayerKernels& kernels = layer_kernels(exec.isa);
  parallel_units(exec, rows, n, [&](std::int64_t begin, std::int64_t end) {
    kernels.rms_norm(n, eps, end - begin, x.data() + begin * n, gain.data(), y.data() + begin * n,
                     deviation.data() + begin);
  });
}

void rms_norm_backward(const Exec& exec, std::int64_t n, Span<const float> dy, Span<const float> x,
                       Span<const float> gain, Span<const float> deviation, Span<float> dx,
                       Span<float> d_gain) {
  const std::int64_t rows = check_norm_layer(
      "rms_norm_backward", n, x.size(), {{"dy", dy.size()}, {"dx", dx.size()}},
      {{"gain", gain.size()}, {"d_gain", d_gain.size()}}, {{"deviation", deviation.size()}});
  norm_layer_backward(exec, n, rows, dy, x, gain, {nullptr, deviation.data()}, dx, d_gain, {});
}

void layer_norm(const Exec& exec, std::int64_t n, float eps, Span<const float> x,
                Span<const float> gain, Span<const float> bias, Span<float> y, Span<float> mean,
                Span<float> deviation) {
  const std::int64_t rows = check_norm_layer(
      "layer_norm", n, x.size(), {{"y", y.size()}}, {{"gain", gain.size()}, {"bias", bias.size()}},
      {{"mean", mean.size()}, {"deviation", deviation.size()}});
  check_norm_eps("layer_norm", eps);
  const LayerKernels& kernels = layer_kernels(exec.isa);
  parallel_units(exec, rows, n, [&](std::int64_t begin, std::int64_t end) {
    kernels.layer_norm(n, eps, end - begin, x.data() + begin * n, gain.data(), bias.data(),
                       y.data() + begin * n, mean.data() + begin, deviation.data() + begin);
  });
}

void layer_norm_backward(const Exec& exec, std::int64_t n, Span<const float> dy,
                         Span<const float> x, Span<const float> gain, Span<const float> mean,
                         Span<const float> deviation, Span<float> dx, Span<float> d_gain,
                         Span<float> d_bias) {
  const std::int64_t rows = check_norm_layer(
      "layer_norm_backward", n, x.size(), {{"dy", dy.size()}, {"dx", dx.size()}},
      {{"gain", gain.size()}, {"d_gain", d_gain.size()}, {"d_bias", d_bias.size()}},
      {{"mean", mean.size()}, {"deviation", deviation.size()}});
  norm_layer_backward(exec, n, rows, dy, x, gain, {mean.data(), deviation.data()}, dx, d_gain,
                      d_bias);
}

}  // namespace zeroproof::cuda::host
