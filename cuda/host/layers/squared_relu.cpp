#include "cuda/host/layers/activation_checks.hpp"
#include "cuda/host/layers/row_stretches.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/host/simd/activation_kernels.hpp"

namespace zeroproof::cuda::host {

void squared_relu(const Exec& exec, std::int64_t columns, Span<const float> x,
                  Span<const float> weight, Span<float> y) {
  require_whole_rows("squared_relu", "x", x.size(), columns);
  require_numel("squared_relu", "y", y.size(), x.size());
  require_row_weights("squared_relu", columns, x.size(), weight.size());
  const ActivationKernels& kernels = activation_kernels(exec.isa);
  parallel_stretches(exec, numel(x), columns,
                     [&](std::int64_t row, std::int64_t column, std::int64_t count) {
                       const std::int64_t at = columns * row + column;
                       kernels.squared_relu(x.data() + at, weight.empty() ? 1.0F : weight[row],
                                            y.data() + at, count);
                     });
}

void squared_relu_backward(const Exec& exec, std::int64_t columns, Span<const float> dy,
                           Span<const float> x, Span<const float> weight, Span<float> dx,
                           Span<float> d_weight) {
  require_whole_rows("squared_relu_backward", "x", x.size(), columns);
  require_numel("squared_relu_backward", "dy", dy.size(), x.size());
  require_numel("squared_relu_backward", "dx", dx.size(), x.size());
  require_row_weights("squared_relu_backward", columns, x.size(), weight.size());
  require_numel("squared_relu_backward", "d_weight", d_weight.size(), weight.size());
  const ActivationKernels& kernels = activation_kernels(exec.isa);
  const auto stretch = [&](std::int64_t at, float factor, std::int64_t count, float* products) {
    kernels.squared_relu_backward(dy.data() + at, x.data() + at, factor, dx.data() + at, products,
                                  count);
  };
  if (weight.empty()) {
    parallel_stretches(exec, numel(x), columns,
                       [&](std::int64_t row, std::int64_t column, std::int64_t count) {
                         std::array<float, stretch_numel> unused;
                         stretch(columns * row + column, 1.0F, count, unused.data());
                       });
    return;
  }
  parallel_rows(exec, numel(weight), columns, [&](std::int64_t row) {
    const auto at = static_cast<std::size_t>(row);
    d_weight[at] = row_sum(columns, [&](std::int64_t column, std::int64_t count, float* products) {
      stretch(columns * row + column, weight[at], count, products);
    });
  });
}

}  // namespace zeroproof::cuda::host
