#include <vector>

#include "cuda/host/base/parallel_units.hpp"
#include "cuda/host/layers/layer_checks.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/host/simd/layer_kernels.hpp"

namespace zeroproof::cuda::host {

void column_sum(const Exec& exec, Span<const float> x, Span<float> sums) {
  const std::int64_t rows = check_column_sum(x.size(), sums.size());
  const std::int64_t columns = numel(sums);
  const LayerKernels& kernels = layer_kernels(exec.isa);
  std::vector<float> partials(8 * sums.size());
  parallel_column_tiles(exec, rows, columns,
                        [&](std::int64_t block, std::int64_t first_row, std::int64_t end_row,
                            std::int64_t first_column, std::int64_t end_column) {
                          kernels.column_sums(
                              {columns, first_row, end_row, first_column, end_column}, x.data(),
                              partials.data() + block * columns);
                        });
  kernels.fold_columns(partials.data(), columns, sums.data());
}

void weight_grad(const Exec& exec, std::int64_t tokens, std::int64_t outputs, std::int64_t inputs,
                 Span<const float> dy, Span<const float> x, Span<float> weight_grad) {
  check_weight_grad("weight_grad", tokens, outputs, inputs, dy.size(), x.size(),
                    weight_grad.size());
  const LayerKernels& kernels = layer_kernels(exec.isa);
  // Tiles of 16 inputs, outputs before inputs, so that neighbouring tiles read the same columns of
  // x.
  constexpr std::int64_t width = 16, height = 64;
  const std::int64_t down = (outputs + height - 1) / height, across = (inputs + width - 1) / width;
  parallel_units(exec, down * across, tokens * 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t o = unit % down * height, i = unit / down * width;
      kernels.weight_grad(
          {inputs, o, std::min(o + height, outputs), i, std::min(i + width, inputs)}, tokens,
          outputs, dy.data(), x.data(), weight_grad.data());
    }
  });
}

void weight_grad_bf16(const Exec& exec, std::int64_t tokens, std::int64_t outputs,
                      std::int64_t inputs, Span<const bf16> dy, Span<const bf16> x,
                      Span<float> weight_grad) {
  check_weight_grad("weight_grad_bf16", tokens, outputs, inputs, dy.size(), x.size(),
                    weight_grad.size());
  // Every value is read once per tile that uses it, so it is widened once into separate memory.
  std::vector<float> wide_dy(dy.size()), wide_x(x.size());
  widen_bf16(exec, dy, wide_dy);
  widen_bf16(exec, x, wide_x);
  host::weight_grad(exec, tokens, outputs, inputs, wide_dy, wide_x, weight_grad);
}

}  // namespace zeroproof::cuda::host
