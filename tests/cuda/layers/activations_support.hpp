#pragma once
// Checks of the activation implementations, on the host and on a device.

#include "common/contracts/activations.hpp"
#include "reference/operations.hpp"
#include "tests/cuda/layers/layer_support.hpp"

namespace zeroproof::tests {

struct ActivationImplementations {
  BiasGeluFn* bias_gelu;
  BiasGeluBackwardFn* bias_gelu_backward;
  GegluFn* geglu;
  GegluBackwardFn* geglu_backward;
  QuickGegluFn* quick_geglu;
  QuickGegluBackwardFn* quick_geglu_backward;
  SwigluFn* swiglu;
  SwigluBackwardFn* swiglu_backward;
  SquaredReluFn* squared_relu;
  SquaredReluBackwardFn* squared_relu_backward;
};

inline constexpr ActivationImplementations reference_activations{
    reference::bias_gelu,    reference::bias_gelu_backward,
    reference::geglu,        reference::geglu_backward,
    reference::quick_geglu,  reference::quick_geglu_backward,
    reference::swiglu,       reference::swiglu_backward,
    reference::squared_relu, reference::squared_relu_backward};

/// Outputs of every activation over the same rows, one after another, with the surrounding memory.
class AllActivations {
 public:
  /// with: bias and weights. offset: of the buffers behind 16 bytes.
  AllActivations(std::int64_t rows, std::int64_t columns, bool with, int offset)
      : rows_(rows),
        columns_(columns),
        x_(2 * rows * columns, offset),
        dy_(2 * rows * columns, offset),
        bias_(with ? 2 * columns : 0, offset),
        weight_(with ? rows : 0, offset) {
    device_test::fill(x_.span(), 1);
    device_test::fill(dy_.span(), 2);
    device_test::fill(bias_.span(), 3);
    device_test::fill(weight_.span(), 4);
  }

  /// Every output of every implementation.
  Outputs run(const ActivationImplementations& implementations, const Exec& exec, float offset,
              float limit, int place) const {
    Outputs outputs;
    const auto numel = static_cast<std::size_t>(rows_ * columns_);
    const auto out = [&](std::int64_t count) { return outputs.emplace_back(count, place).span(); };
    outputs.reserve(32);
    const Span<const float> x = x_.span(), bias = bias_.span(), weight = weight_.span();
    const Span<const float> half_x = x.first(numel), half_bias = bias.first(bias.size() / 2);
    const Span<const float> dy = dy_.span().first(numel);
    const std::int64_t n = rows_ * columns_, w = numel_of(weight);
    implementations.bias_gelu(exec, columns_, half_x, half_bias, out(n));
    implementations.bias_gelu_backward(exec, columns_, dy, half_x, half_bias, out(n));
    implementations.geglu(exec, columns_, x, bias, out(n));
    implementations.geglu_backward(exec, columns_, dy, x, bias, out(2 * n));
    implementations.quick_geglu(exec, columns_, offset, x, bias, weight, out(n));
    const Span<float> quick = out(2 * n);
    implementations.quick_geglu_backward(exec, columns_, offset, dy, x, bias, weight, quick,
                                         out(w));
    implementations.swiglu(exec, columns_, limit, x, bias, weight, out(n));
    const Span<float> silu = out(2 * n);
    implementations.swiglu_backward(exec, columns_, limit, dy, x, bias, weight, silu, out(w));
    implementations.squared_relu(exec, columns_, half_x, weight, out(n));
    const Span<float> relu = out(n);
    implementations.squared_relu_backward(exec, columns_, dy, half_x, weight, relu, out(w));
    return outputs;
  }

 private:
  static std::int64_t numel_of(Span<const float> view) {
    return static_cast<std::int64_t>(view.size());
  }

  std::int64_t rows_, columns_;
  Place<float> x_, dy_, bias_, weight_;
};

inline void check_activations_refused(const ActivationImplementations& implementations,
                                      const Exec& exec) {
  std::vector<float> two(2), three(3), four(4), eight(8), none;
  refused([&] { implementations.bias_gelu(exec, 0, none, none, none); });
  refused([&] { implementations.bias_gelu(exec, 2, three, none, three); });
  refused([&] { implementations.bias_gelu(exec, 2, four, none, two); });
  refused([&] { implementations.bias_gelu(exec, 2, four, three, four); });
  refused([&] { implementations.bias_gelu_backward(exec, 2, two, four, none, four); });
  refused([&] { implementations.bias_gelu_backward(exec, 2, four, four, none, two); });
  refused([&] { implementations.geglu(exec, 2, four, none, four); });
  refused([&] { implementations.geglu(exec, 2, eight, two, four); });
  refused([&] { implementations.geglu(exec, 0, none, none, none); });
  refused([&] { implementations.geglu(exec, 3, eight, none, four); });
  refused([&] { implementations.geglu_backward(exec, 2, four, eight, none, four); });
  refused([&] { implementations.quick_geglu(exec, 2, 0.0F, eight, none, three, four); });
  refused([&] {
    implementations.quick_geglu_backward(exec, 2, 0.0F, four, eight, none, two, eight, none);
  });
  refused([&] {
    implementations.quick_geglu_backward(exec, 2, 0.0F, four, eight, none, none, eight, two);
  });
  refused([&] {
    implementations.swiglu_backward(exec, 2, 0.0F, four, eight, none, two, eight, three);
  });
  for (const float limit : {-1.0F, std::nanf(""), __builtin_inff()}) {
    refused([&] { implementations.swiglu(exec, 2, limit, eight, none, none, four); });
    refused([&] {
      implementations.swiglu_backward(exec, 2, limit, four, eight, none, none, eight, none);
    });
  }
  refused([&] { implementations.squared_relu(exec, 2, four, three, four); });
  refused([&] { implementations.squared_relu(exec, 2, four, none, two); });
  refused([&] { implementations.squared_relu_backward(exec, 2, four, four, two, four, none); });
  refused([&] { implementations.squared_relu_backward(exec, 2, two, four, none, four, none); });
}

}  // namespace zeroproof::tests
