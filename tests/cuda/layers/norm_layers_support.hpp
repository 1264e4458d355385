#pragma once
// The norms of rows, for the implementations of the host and those of the device.

#include "common/contracts/norm_layers.hpp"
#include "reference/operations.hpp"
#include "tests/cuda/layers/layer_support.hpp"

namespace zeroproof::tests {

struct NormImplementations {
  RmsNormFn* rms_norm;
  RmsNormBackwardFn* rms_norm_backward;
  LayerNormFn* layer_norm;
  LayerNormBackwardFn* layer_norm_backward;
};

inline Outputs rms_norm_outputs(const NormImplementations& implementations, const Exec& exec,
                                const Shape& s, int offset, bool special) {
  const std::int64_t numel = s.rows * s.n;
  const auto x = filled(numel, offset, 1, special), gain = filled(s.n, offset, 2, special);
  const auto dy = filled(numel, 1, 3, special);
  Place<float> y(numel, 0), deviation(s.rows, 1), dx(numel, offset), d_gain(s.n, 3);
  implementations.rms_norm(exec, s.n, 1e-5F, x.span(), gain.span(), y.span(), deviation.span());
  implementations.rms_norm_backward(exec, s.n, dy.span(), x.span(), gain.span(), deviation.span(),
                                    dx.span(), d_gain.span());
  return {y, deviation, dx, d_gain};
}

inline Outputs layer_norm_outputs(const NormImplementations& implementations, const Exec& exec,
                                  const Shape& s, int offset, bool special) {
  const std::int64_t numel = s.rows * s.n;
  const auto x = filled(numel, offset, 4, special), gain = filled(s.n, 0, 5, special);
  const auto bias = filled(s.n, offset, 6, special), dy = filled(numel, offset, 7, special);
  Place<float> y(numel, offset), mean(s.rows, 0), deviation(s.rows, 1), dx(numel, 2);
  Place<float> d_gain(s.n, 0), d_bias(s.n, offset);
  implementations.layer_norm(exec, s.n, 0x1p-10F, x.span(), gain.span(), bias.span(), y.span(),
                             mean.span(), deviation.span());
  implementations.layer_norm_backward(exec, s.n, dy.span(), x.span(), gain.span(), mean.span(),
                                      deviation.span(), dx.span(), d_gain.span(), d_bias.span());
  return {y, mean, deviation, dx, d_gain, d_bias};
}

inline void check_norm_shapes(const NormImplementations& implementations, const Exec& exec) {
  constexpr NormImplementations expected{reference::rms_norm, reference::rms_norm_backward,
                                         reference::layer_norm, reference::layer_norm_backward};
  for (const Shape& shape : shapes()) {
    for (const int offset : {0, 1, 3}) {
      CAPTURE(shape.rows);
      CAPTURE(shape.n);
      CAPTURE(offset);
      for (auto* outputs : {rms_norm_outputs, layer_norm_outputs}) {
        check_same(outputs(implementations, exec, shape, offset, offset == 3),
                   outputs(expected, {}, shape, offset, offset == 3));
      }
    }
  }
}

inline void check_norms_refused(const NormImplementations& implementations, const Exec& exec) {
  std::vector<float> six(6), three(3), two(2);
  CHECK_NOTHROW(implementations.rms_norm(exec, 3, 0.0F, six, three, six, two));
  refused([&] { implementations.rms_norm(exec, 0, 0.0F, six, {}, six, {}); });
  refused([&] { implementations.rms_norm(exec, -3, 0.0F, six, three, six, two); });
  refused([&] { implementations.rms_norm(exec, 4, 0.0F, six, six, six, two); });
  refused([&] { implementations.rms_norm(exec, 3, 0.0F, six, three, three, two); });
  refused([&] { implementations.rms_norm(exec, 3, 0.0F, six, two, six, two); });
  refused([&] { implementations.rms_norm(exec, 3, 0.0F, six, three, six, three); });
  for (const float eps : {-1e-6F, HUGE_VALF, std::nanf("")}) {
    refused([&] { implementations.rms_norm(exec, 3, eps, six, three, six, two); });
    refused([&] { implementations.layer_norm(exec, 3, eps, six, three, three, six, two, two); });
  }
  refused([&] { implementations.rms_norm_backward(exec, 0, six, six, {}, {}, six, {}); });
  refused([&] { implementations.rms_norm_backward(exec, 3, three, six, three, two, six, three); });
  refused([&] { implementations.rms_norm_backward(exec, 3, six, six, two, two, six, three); });
  refused([&] { implementations.rms_norm_backward(exec, 3, six, six, three, three, six, three); });
  refused([&] { implementations.rms_norm_backward(exec, 3, six, six, three, two, three, three); });
  refused([&] { implementations.rms_norm_backward(exec, 3, six, six, three, two, six, two); });
  refused([&] { implementations.layer_norm(exec, 3, 0.0F, six, three, two, six, two, two); });
  refused([&] { implementations.layer_norm(exec, 3, 0.0F, six, three, three, six, three, two); });
  refused([&] {
    implementations.layer_norm_backward(exec, 3, six, six, three, three, two, six, three, three);
  });
  refused([&] {
    implementations.layer_norm_backward(exec, 3, six, six, three, two, two, six, three, two);
  });
}

}  // namespace zeroproof::tests
