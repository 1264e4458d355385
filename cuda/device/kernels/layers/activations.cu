#include "cuda/device/kernels/layers/activation_element.cuh"
#include "cuda/device/kernels/layers/row_elementwise.cuh"
#include "cuda/device/kernels/layers/row_sum.cuh"
#include "cuda/device/operations.hpp"
#include "cuda/host/layers/activation_checks.hpp"

namespace zeroproof::cuda::device {

namespace {

template <bool backward>
struct BiasGelu {
  const float* dy;    // [rows, columns]; backward
  const float* x;     // [rows, columns]
  const float* bias;  // [columns] or null
  float* out;         // [rows, columns]: y or dx
  std::int64_t columns;

  ZP_DEVICE static float value(float u, float upstream) {
    const GateValues values = gelu_values(u);
    return backward ? upstream * values.slope : values.factor;
  }

  ZP_DEVICE void at(std::int64_t row, std::int64_t column) const {
    const std::int64_t i = columns * row + column;
    const float u = bias != nullptr ? x[i] + bias[column] : x[i];
    out[i] = value(u, backward ? dy[i] : 0.0F);
  }

  ZP_DEVICE void four(std::int64_t row, std::int64_t column) const {
    const std::int64_t i = columns * row + column;
    Pack<float> values = load_pack(x + i);
    Pack<float> upstream{};
    if (backward) upstream = load_pack(dy + i);
    if (bias != nullptr) {
      const Pack<float> added = load_pack(bias + column);
      ZP_UNROLL
      for (int k = 0; k < 4; ++k) values.v[k] = values.v[k] + added.v[k];
    }
    ZP_UNROLL
    for (int k = 0; k < 4; ++k) values.v[k] = value(values.v[k], upstream.v[k]);
    store_pack(out + i, values);
  }
};

void check_gelu(const char* op, std::int64_t columns, Span<const float> x, Span<const float> bias) {
  host::require_whole_rows(op, "x", x.size(), columns);
  host::require_numel_or_none(op, "bias", bias.size(), static_cast<std::size_t>(columns));
}

/// x where it is positive, +0 below; a NaN is unchanged (R4).
ZP_HOST_DEVICE inline float positive_part(float x) { return x <= 0.0F ? 0.0F : x; }

struct SquaredRelu {
  const float* x;       // [rows, columns]
  const float* weight;  // [rows] or null
  float* y;             // [rows, columns]
  std::int64_t columns;

  ZP_DEVICE float weight_of(std::int64_t row) const {
    return weight != nullptr ? weight[row] : 1.0F;
  }

  ZP_DEVICE static float value(float x, float weight) {
    const float m = positive_part(x);
    const float f = m * m;
    return f * weight;
  }

  ZP_DEVICE void at(std::int64_t row, std::int64_t column) const {
    const std::int64_t i = columns * row + column;
    y[i] = value(x[i], weight_of(row));
  }

  ZP_DEVICE void four(std::int64_t row, std::int64_t column) const {
    const std::int64_t i = columns * row + column;
    const float factor = weight_of(row);
    Pack<float> values = load_pack(x + i);
    ZP_UNROLL
    for (int k = 0; k < 4; ++k) values.v[k] = value(values.v[k], factor);
    store_pack(y + i, values);
  }
};

struct SquaredReluBackward {
  const float* dy;      // [rows, columns]
  const float* x;       // [rows, columns]
  const float* weight;  // [rows] or null
  float* dx;            // [rows, columns]
  std::int64_t columns;

  ZP_DEVICE static float slope(float m, float g) {
    const float a = 2.0F * m;
    return a * g;
  }

  ZP_DEVICE float summand(std::int64_t row, std::int64_t column) const {
    const std::int64_t i = columns * row + column;
    const float m = positive_part(x[i]);
    const float f = m * m;
    dx[i] = slope(m, weight != nullptr ? dy[i] * weight[row] : dy[i]);
    return dy[i] * f;
  }

  ZP_DEVICE void at(std::int64_t row, std::int64_t column) const { summand(row, column); }

  ZP_DEVICE void four(std::int64_t row, std::int64_t column) const {  // without weights
    const std::int64_t i = columns * row + column;
    const Pack<float> upstream = load_pack(dy + i);
    Pack<float> values = load_pack(x + i);
    ZP_UNROLL
    for (int k = 0; k < 4; ++k) values.v[k] = slope(positive_part(values.v[k]), upstream.v[k]);
    store_pack(dx + i, values);
  }
};

}  // namespace

void bias_gelu(const Exec&, std::int64_t columns, Span<const float> x, Span<const float> bias,
               Span<float> y) {
  check_gelu("bias_gelu", columns, x, bias);
  host::require_numel("bias_gelu", "y", y.size(), x.size());
  if (x.empty()) return;
  const BiasGelu<false> operation{nullptr, x.data(), pointer_or_null(bias), y.data(), columns};
  run_by_rows(operation, numel(x), columns, operation.x, operation.bias, operation.out);
}

void bias_gelu_backward(const Exec&, std::int64_t columns, Span<const float> dy,
                        Span<const float> x, Span<const float> bias, Span<float> dx) {
  check_gelu("bias_gelu_backward", columns, x, bias);
  host::require_numel("bias_gelu_backward", "dy", dy.size(), x.size());
  host::require_numel("bias_gelu_backward", "dx", dx.size(), x.size());
  if (x.empty()) return;
  const BiasGelu<true> operation{dy.data(), x.data(), pointer_or_null(bias), dx.data(), columns};
  run_by_rows(operation, numel(x), columns, operation.dy, operation.x, operation.bias,
              operation.out);
}

void squared_relu(const Exec&, std::int64_t columns, Span<const float> x, Span<const float> weight,
                  Span<float> y) {
  host::require_whole_rows("squared_relu", "x", x.size(), columns);
  host::require_numel("squared_relu", "y", y.size(), x.size());
  host::require_row_weights("squared_relu", columns, x.size(), weight.size());
  if (x.empty()) return;
  const SquaredRelu operation{x.data(), pointer_or_null(weight), y.data(), columns};
  run_by_rows(operation, numel(x), columns, operation.x, operation.y);
}

void squared_relu_backward(const Exec&, std::int64_t columns, Span<const float> dy,
                           Span<const float> x, Span<const float> weight, Span<float> dx,
                           Span<float> d_weight) {
  host::require_whole_rows("squared_relu_backward", "x", x.size(), columns);
  host::require_numel("squared_relu_backward", "dy", dy.size(), x.size());
  host::require_numel("squared_relu_backward", "dx", dx.size(), x.size());
  host::require_row_weights("squared_relu_backward", columns, x.size(), weight.size());
  host::require_numel("squared_relu_backward", "d_weight", d_weight.size(), weight.size());
  if (x.empty()) return;
  const SquaredReluBackward operation{dy.data(), x.data(), pointer_or_null(weight), dx.data(),
                                      columns};
  if (!weight.empty()) {
    run_row_sums(operation, numel(weight), columns, d_weight.data());
  } else {
    run_by_rows(operation, numel(x), columns, operation.dy, operation.x, operation.dx);
  }
}

}  // namespace zeroproof::cuda::device
