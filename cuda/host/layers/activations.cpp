#include "cuda/host/layers/activation_checks.hpp"
#include "cuda/host/layers/row_stretches.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/host/simd/activation_kernels.hpp"

namespace zeroproof::cuda::host {

namespace {

/// Replaces a missing bias: adding -0 changes no bit.
const std::array<float, stretch_numel> no_bias = [] {
  std::array<float, stretch_numel> zeros{};
  zeros.fill(-0.0F);
  return zeros;
}();

const float* bias_from(Span<const float> bias, std::int64_t column) {
  return bias.empty() ? no_bias.data() : bias.data() + column;
}

/// Replaces a missing weight: multiplying by 1 changes no bit.
float weight_of(Span<const float> weight, std::int64_t row) {
  return weight.empty() ? 1.0F : weight[row];
}

void check_gelu(const char* op, std::int64_t columns, std::size_t x, std::size_t bias) {
  require_whole_rows(op, "x", x, columns);
  require_numel_or_none(op, "bias", bias, static_cast<std::size_t>(columns));
}

GatedStretch stretch_of(std::int64_t columns, Span<const float> x, Span<const float> bias,
                        Span<const float> weight, std::int64_t row, std::int64_t column) {
  const float* const gate = x.data() + 2 * columns * row + column;
  return {gate, gate + columns, bias_from(bias, column), bias_from(bias, columns + column),
          weight_of(weight, row)};
}

void gated(const Exec& exec, const GatedForm& form, std::int64_t columns, Span<const float> x,
           Span<const float> bias, Span<const float> weight, Span<float> y) {
  const ActivationKernels& kernels = activation_kernels(exec.isa);
  parallel_stretches(exec, numel(y), columns,
                     [&](std::int64_t row, std::int64_t column, std::int64_t count) {
                       kernels.gated(form, stretch_of(columns, x, bias, weight, row, column),
                                     y.data() + columns * row + column, count);
                     });
}

void gated_backward(const Exec& exec, const GatedForm& form, std::int64_t columns,
                    Span<const float> dy, Span<const float> x, Span<const float> bias,
                    Span<const float> weight, Span<float> dx, Span<float> d_weight) {
  const ActivationKernels& kernels = activation_kernels(exec.isa);
  const auto stretch = [&](std::int64_t row, std::int64_t column, std::int64_t count,
                           float* products) {
    float* const gate = dx.data() + 2 * columns * row + column;
    kernels.gated_backward(form, stretch_of(columns, x, bias, weight, row, column),
                           dy.data() + columns * row + column, {gate, gate + columns, products},
                           count);
  };
  if (weight.empty()) {
    parallel_stretches(exec, numel(dy), columns,
                       [&](std::int64_t row, std::int64_t column, std::int64_t count) {
                         std::array<float, stretch_numel> unused;
                         stretch(row, column, count, unused.data());
                       });
    return;
  }
  parallel_rows(exec, numel(weight), columns, [&](std::int64_t row) {
    d_weight[row] = row_sum(columns, [&](std::int64_t column, std::int64_t count, float* products) {
      stretch(row, column, count, products);
    });
  });
}

void check_gated_backward(const char* op, std::int64_t columns, Span<const float> dy,
                          Span<const float> x, Span<const float> bias, Span<const float> weight,
                          Span<float> dx, Span<float> d_weight) {
  require_gated(op, columns, x.size(), bias.size(), "dy", dy.size());
  require_row_weights(op, columns, dy.size(), weight.size());
  require_numel(op, "dx", dx.size(), x.size());
  require_numel(op, "d_weight", d_weight.size(), weight.size());
}

GatedForm swiglu_form(float limit) {
  GatedForm form{GateKind::silu};
  if (limit > 0.0F) form.limit = limit;
  return form;
}

}  // namespace

void bias_gelu(const Exec& exec, std::int64_t columns, Span<const float> x, Span<const float> bias,
               Span<float> y) {
  check_gelu("bias_gelu", columns, x.size(), bias.size());
  require_numel("bias_gelu", "y", y.size(), x.size());
  const ActivationKernels& kernels = activation_kernels(exec.isa);
  parallel_stretches(exec, numel(x), columns,
                     [&](std::int64_t row, std::int64_t column, std::int64_t count) {
                       const std::int64_t at = columns * row + column;
                       kernels.gelu(x.data() + at, bias_from(bias, column), y.data() + at, count);
                     });
}

void bias_gelu_backward(const Exec& exec, std::int64_t columns, Span<const float> dy,
                        Span<const float> x, Span<const float> bias, Span<float> dx) {
  check_gelu("bias_gelu_backward", columns, x.size(), bias.size());
  require_numel("bias_gelu_backward", "dy", dy.size(), x.size());
  require_numel("bias_gelu_backward", "dx", dx.size(), x.size());
  const ActivationKernels& kernels = activation_kernels(exec.isa);
  parallel_stretches(exec, numel(x), columns,
                     [&](std::int64_t row, std::int64_t column, std::int64_t count) {
                       const std::int64_t at = columns * row + column;
                       kernels.gelu_backward(dy.data() + at, x.data() + at, bias_from(bias, column),
                                             dx.data() + at, count);
                     });
}

void geglu(const Exec& exec, std::int64_t columns, Span<const float> x, Span<const float> bias,
           Span<float> y) {
  require_gated("geglu", columns, x.size(), bias.size(), "y", y.size());
  gated(exec, {GateKind::gelu}, columns, x, bias, {}, y);
}

void geglu_backward(const Exec& exec, std::int64_t columns, Span<const float> dy,
                    Span<const float> x, Span<const float> bias, Span<float> dx) {
  check_gated_backward("geglu_backward", columns, dy, x, bias, {}, dx, {});
  gated_backward(exec, {GateKind::gelu}, columns, dy, x, bias, {}, dx, {});
}

void quick_geglu(const Exec& exec, std::int64_t columns, float offset, Span<const float> x,
                 Span<const float> bias, Span<const float> weight, Span<float> y) {
  require_gated("quick_geglu", columns, x.size(), bias.size(), "y", y.size());
  require_row_weights("quick_geglu", columns, y.size(), weight.size());
  gated(exec, {GateKind::quick_gelu, offset}, columns, x, bias, weight, y);
}

void quick_geglu_backward(const Exec& exec, std::int64_t columns, float offset,
                          Span<const float> dy, Span<const float> x, Span<const float> bias,
                          Span<const float> weight, Span<float> dx, Span<float> d_weight) {
  check_gated_backward("quick_geglu_backward", columns, dy, x, bias, weight, dx, d_weight);
  gated_backward(exec, {GateKind::quick_gelu, offset}, columns, dy, x, bias, weight, dx, d_weight);
}

void swiglu(const Exec& exec, std::int64_t columns, float limit, Span<const float> x,
            Span<const float> bias, Span<const float> weight, Span<float> y) {
  require_gated("swiglu", columns, x.size(), bias.size(), "y", y.size());
  require_row_weights("swiglu", columns, y.size(), weight.size());
  require_limit("swiglu", limit);
  gated(exec, swiglu_form(limit), columns, x, bias, weight, y);
}

void swiglu_backward(const Exec& exec, std::int64_t columns, float limit, Span<const float> dy,
                     Span<const float> x, Span<const float> bias, Span<const float> weight,
                     Span<float> dx, Span<float> d_weight) {
  check_gated_backward("swiglu_backward", columns, dy, x, bias, weight, dx, d_weight);
  require_limit("swiglu_backward", limit);
  gated_backward(exec, swiglu_form(limit), columns, dy, x, bias, weight, dx, d_weight);
}

}  // namespace zeroproof::cuda::host
