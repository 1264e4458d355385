#include "cuda/device/kernels/layers/activation_element.cuh"
#include "cuda/device/kernels/layers/row_elementwise.cuh"
#include "cuda/device/kernels/layers/row_sum.cuh"
#include "cuda/device/operations.hpp"
#include "cuda/host/layers/activation_checks.hpp"

namespace zeroproof::cuda::device {

namespace {

/// The operands that forward and backward read.
struct GatedOperands {
  const float* x;       // [rows, 2 * columns]
  const float* bias;    // [2 * columns] or null
  const float* weight;  // [rows] or null
  std::int64_t columns;

  ZP_DEVICE std::int64_t gate(std::int64_t row, std::int64_t column) const {
    return 2 * columns * row + column;
  }

  ZP_DEVICE float weight_of(std::int64_t row) const {
    return weight != nullptr ? weight[row] : 1.0F;
  }

  ZP_DEVICE GatedInputs inputs(std::int64_t row, std::int64_t column) const {
    const std::int64_t i = gate(row, column);
    GatedInputs in{x[i], x[i + columns], weight_of(row)};
    if (bias != nullptr) {
      in.gate = in.gate + bias[column];
      in.linear = in.linear + bias[columns + column];
    }
    return in;
  }

  /// Four aligned columns with the bias added.
  ZP_DEVICE Pack<float> biased(std::int64_t i, std::int64_t bias_at) const {
    Pack<float> values = load_pack(x + i);
    if (bias != nullptr) {
      const Pack<float> added = load_pack(bias + bias_at);
      ZP_UNROLL
      for (int k = 0; k < 4; ++k) values.v[k] = values.v[k] + added.v[k];
    }
    return values;
  }
};

template <Gate gate>
struct Gated {
  GatedOperands in;
  float* y;  // [rows, columns]
  GatedSettings settings;

  ZP_DEVICE void at(std::int64_t row, std::int64_t column) const {
    y[in.columns * row + column] = gated_element<gate>(settings, in.inputs(row, column));
  }

  ZP_DEVICE void four(std::int64_t row, std::int64_t column) const {
    const std::int64_t i = in.gate(row, column);
    const Pack<float> gates = in.biased(i, column);
    const Pack<float> linears = in.biased(i + in.columns, in.columns + column);
    const float weight = in.weight_of(row);
    Pack<float> out;
    ZP_UNROLL
    for (int k = 0; k < 4; ++k)
      out.v[k] = gated_element<gate>(settings, {gates.v[k], linears.v[k], weight});
    store_pack(y + in.columns * row + column, out);
  }
};

template <Gate gate>
struct GatedBackward {
  GatedOperands in;
  const float* dy;  // [rows, columns]
  float* dx;        // [rows, 2 * columns]
  GatedSettings settings;

  ZP_DEVICE float summand(std::int64_t row, std::int64_t column) const {
    const GatedGradient gradient =
        gated_gradient<gate>(settings, in.inputs(row, column), dy[in.columns * row + column]);
    const std::int64_t i = in.gate(row, column);
    dx[i] = gradient.gate;
    dx[i + in.columns] = gradient.linear;
    return gradient.product;
  }

  ZP_DEVICE void at(std::int64_t row, std::int64_t column) const { summand(row, column); }

  ZP_DEVICE void four(std::int64_t row, std::int64_t column) const {
    const std::int64_t i = in.gate(row, column);
    Pack<float> gates = in.biased(i, column);
    Pack<float> linears = in.biased(i + in.columns, in.columns + column);
    const Pack<float> upstream = load_pack(dy + in.columns * row + column);
    ZP_UNROLL
    for (int k = 0; k < 4; ++k) {
      const GatedGradient gradient =
          gated_gradient<gate>(settings, {gates.v[k], linears.v[k], 1.0F}, upstream.v[k]);
      gates.v[k] = gradient.gate;
      linears.v[k] = gradient.linear;
    }
    store_pack(dx + i, gates);
    store_pack(dx + i + in.columns, linears);
  }
};

template <Gate gate>
void forward(const char* op, std::int64_t columns, const GatedSettings& settings,
             Span<const float> x, Span<const float> bias, Span<const float> weight, Span<float> y) {
  host::require_gated(op, columns, x.size(), bias.size(), "y", y.size());
  host::require_row_weights(op, columns, y.size(), weight.size());
  if (y.empty()) return;
  const Gated<gate> operation{
      {x.data(), pointer_or_null(bias), pointer_or_null(weight), columns}, y.data(), settings};
  run_by_rows(operation, numel(y), columns, operation.in.x, operation.in.bias, operation.y);
}

template <Gate gate>
void backward(const char* op, std::int64_t columns, const GatedSettings& settings,
              Span<const float> dy, Span<const float> x, Span<const float> bias,
              Span<const float> weight, Span<float> dx, Span<float> d_weight) {
  host::require_gated(op, columns, x.size(), bias.size(), "dy", dy.size());
  host::require_row_weights(op, columns, dy.size(), weight.size());
  host::require_numel(op, "dx", dx.size(), x.size());
  host::require_numel(op, "d_weight", d_weight.size(), weight.size());
  if (dy.empty()) return;
  const GatedBackward<gate> operation{
      {x.data(), pointer_or_null(bias), pointer_or_null(weight), columns},
      dy.data(),
      dx.data(),
      settings};
  if (!weight.empty()) {
    run_row_sums(operation, numel(weight), columns, d_weight.data());
  } else {
    run_by_rows(operation, numel(dy), columns, operation.in.x, operation.in.bias, operation.dy,
                operation.dx);
  }
}

constexpr GatedSettings no_settings{-0.0F, __builtin_inff()};

constexpr GatedSettings with_offset(float offset) { return {offset, __builtin_inff()}; }

GatedSettings with_limit(const char* op, float limit) {
  host::require_limit(op, limit);
  return limit > 0.0F ? GatedSettings{-0.0F, limit} : no_settings;
}

}  // namespace

void geglu(const Exec&, std::int64_t columns, Span<const float> x, Span<const float> bias,
           Span<float> y) {
  forward<Gate::gelu>("geglu", columns, no_settings, x, bias, {}, y);
}

void geglu_backward(const Exec&, std::int64_t columns, Span<const float> dy, Span<const float> x,
                    Span<const float> bias, Span<float> dx) {
  backward<Gate::gelu>("geglu_backward", columns, no_settings, dy, x, bias, {}, dx, {});
}

void quick_geglu(const Exec&, std::int64_t columns, float offset, Span<const float> x,
                 Span<const float> bias, Span<const float> weight, Span<float> y) {
  forward<Gate::quick_gelu>("quick_geglu", columns, with_offset(offset), x, bias, weight, y);
}

void quick_geglu_backward(const Exec&, std::int64_t columns, float offset, Span<const float> dy,
                          Span<const float> x, Span<const float> bias, Span<const float> weight,
                          Span<float> dx, Span<float> d_weight) {
  backward<Gate::quick_gelu>("quick_geglu_backward", columns, with_offset(offset), dy, x, bias,
                             weight, dx, d_weight);
}

void swiglu(const Exec&, std::int64_t columns, float limit, Span<const float> x,
            Span<const float> bias, Span<const float> weight, Span<float> y) {
  forward<Gate::silu>("swiglu", columns, with_limit("swiglu", limit), x, bias, weight, y);
}

void swiglu_backward(const Exec&, std::int64_t columns, float limit, Span<const float> dy,
                     Span<const float> x, Span<const float> bias, Span<const float> weight,
                     Span<float> dx, Span<float> d_weight) {
  backward<Gate::silu>("swiglu_backward", columns, with_limit("swiglu_backward", limit), dy, x,
                       bias, weight, dx, d_weight);
}

}  // namespace zeroproof::cuda::device
