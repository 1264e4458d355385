#include "cuda/host/base/check.hpp"
#include "cuda/host/base/parallel_blocks.hpp"
#include "cuda/host/layers/layer_checks.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/host/simd/layer_kernels.hpp"

namespace zeroproof::cuda::host {
namespace {

Dropout dropout_from(const DropoutDraw& draw, const DropoutRule& rule, std::int64_t begin) {
  return {{draw.seed, static_cast<std::uint32_t>(draw.step),
           draw.first_index + static_cast<std::uint64_t>(begin)},
          rule.threshold,
          rule.scale};
}

}  // namespace

void bias_dropout(const Exec& exec, const DropoutDraw& draw, std::int64_t columns,
                  double probability, Span<const float> x, Span<const float> bias,
                  Span<const float> residual, Span<float> y) {
  check_bias_dropout(columns, x.size(), bias.size(), residual.size(), y.size());
  const DropoutRule rule = dropout_rule("bias_dropout", probability);
  const LayerKernels& kernels = layer_kernels(exec.isa);
  const float* const bias_data = bias.empty() ? nullptr : bias.data();
  parallel_blocks(exec, numel(x), [&](std::int64_t begin, std::int64_t end) {
    kernels.bias_dropout(dropout_from(draw, rule, begin), columns, begin % columns,
                         x.data() + begin, bias_data, residual.data() + begin, y.data() + begin,
                         end - begin);
  });
}

void bias_dropout_backward(const Exec& exec, const DropoutDraw& draw, double probability,
                           Span<const float> dy, Span<float> dx) {
  require_same_numel("bias_dropout_backward", "dy", dy.size(), "dx", dx.size());
  const DropoutRule rule = dropout_rule("bias_dropout_backward", probability);
  const LayerKernels& kernels = layer_kernels(exec.isa);
  parallel_blocks(exec, numel(dy), [&](std::int64_t begin, std::int64_t end) {
    kernels.bias_dropout_backward(dropout_from(draw, rule, begin), dy.data() + begin,
                                  dx.data() + begin, end - begin);
  });
}

}  // namespace zeroproof::cuda::host
