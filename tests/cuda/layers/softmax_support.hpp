#pragma once
// Softmax of rows and its gradients, for the implementations of the host and those of the device.

#include "common/contracts/softmax.hpp"
#include "reference/operations.hpp"
#include "tests/cuda/layers/layer_support.hpp"

namespace zeroproof::tests {

struct SoftmaxImplementations {
  CausalSoftmaxFn* causal;
  CausalSoftmaxBackwardFn* causal_backward;
  MaskedSoftmaxFn* masked;
  MaskedSoftmaxBackwardFn* masked_backward;
  SinkSoftmaxFn* sink;
  SinkSoftmaxBackwardFn* sink_backward;
};

inline constexpr SoftmaxImplementations reference_softmax{
    reference::causal_softmax, reference::causal_softmax_backward,
    reference::masked_softmax, reference::masked_softmax_backward,
    reference::sink_softmax,   reference::sink_softmax_backward};

/// Scores with some special values in some rows, so that the other rows stay ordinary.
inline Place<float> scores(std::int64_t rows, std::int64_t n, int offset, std::uint64_t stream) {
  Place<float> x = filled(rows * n, offset, stream, false);
  for (float& value : x.span()) value *= 8.0F;
  const float rare[] = {HUGE_VALF, -HUGE_VALF, std::nanf(""), 0x1p127F, -0.0F, 1e-42F};
  for (std::int64_t r = 5; r < rows; r += 4) {
    const std::uint32_t bits = device_test::hash(static_cast<std::uint64_t>(r), stream);
    x.span()[r * n + bits % n] = rare[bits / 64 % 6];
  }
  return x;
}

inline Outputs causal_outputs(const SoftmaxImplementations& implementations, const Exec& exec,
                              std::int64_t n, std::int64_t matrices, int offset) {
  const std::int64_t rows = matrices * n;
  const auto x = scores(rows, n, offset, 1), dy = filled(rows * n, 1, 2, offset == 3);
  Place<float> y(rows * n, offset), dx(rows * n, 3 - offset);
  implementations.causal(exec, n, 0.3F, x.span(), y.span());
  implementations.causal_backward(exec, n, 0.3F, dy.span(), y.span(), dx.span());
  return {y, dx};
}

/// Every seventh row is masked as a whole.
inline Outputs masked_outputs(const SoftmaxImplementations& implementations, const Exec& exec,
                              const Shape& s, int offset) {
  const auto x = scores(s.rows, s.n, offset, 3), dy = filled(s.rows * s.n, 1, 4, offset == 3);
  Place<std::uint8_t> mask(s.rows * s.n, offset);
  for (std::int64_t i = 0; i < s.rows * s.n; ++i) {
    const std::uint32_t bits = device_test::hash(static_cast<std::uint64_t>(i), 5);
    const bool masked = i / s.n % 7 == 3 || bits % 3 == 0;
    mask.span()[i] = static_cast<std::uint8_t>(masked ? bits / 3 % 255 + 1 : 0);
  }
  Place<float> y(s.rows * s.n, offset), dx(s.rows * s.n, 3 - offset);
  implementations.masked(exec, s.n, -0.7F, x.span(), mask.span(), y.span());
  implementations.masked_backward(exec, s.n, -0.7F, dy.span(), y.span(), mask.span(), dx.span());
  return {y, dx};
}

inline Outputs sink_outputs(const SoftmaxImplementations& implementations, const Exec& exec,
                            std::int64_t batches, std::int64_t heads, std::int64_t positions,
                            std::int64_t n, int offset) {
  const std::int64_t rows = batches * heads * positions;
  const auto x = scores(rows, n, offset, 6), dy = filled(rows * n, 1, 7, false);
  auto sink = filled(heads, offset, 8, false);
  if (heads > 2) sink.span()[2] = 50.0F;  // larger than every score
  if (heads > 3) sink.span()[3] = -HUGE_VALF;
  Place<float> y(rows * n, offset), share(rows, 1), dx(rows * n, 2), d_sink(heads, offset);
  implementations.sink(exec, positions, n, 0.5F, x.span(), sink.span(), y.span(), share.span());
  implementations.sink_backward(exec, positions, n, 0.5F, dy.span(), y.span(), share.span(),
                                dx.span(), d_sink.span());
  return {y, share, dx, d_sink};
}

inline void check_softmax_shapes(const SoftmaxImplementations& implementations, const Exec& exec) {
  const auto check = [&](auto* outputs, const auto&... shape) {
    check_same(outputs(implementations, exec, shape...), outputs(reference_softmax, {}, shape...));
  };
  for (const int offset : {0, 1, 3}) {
    CAPTURE(offset);
    for (const std::int64_t n : {1, 2, 7, 8, 9, 17, 33, 100}) {
      CAPTURE(n);
      check(causal_outputs, n, n % 4, offset);
      check(causal_outputs, n, 2, offset);
      check(sink_outputs, 2, 3, 5, n, offset);
      check(sink_outputs, 3, 4, 1, n, offset);
    }
    check(sink_outputs, 1, 1, 37, 130, offset);
    check(sink_outputs, 0, 2, 3, 4, offset);
    check(sink_outputs, 5, 5, 9, 100, offset);
    for (const Shape& shape : shapes()) {
      CAPTURE(shape.n);
      check(masked_outputs, shape, offset);
    }
  }
}

inline void check_softmax_refused(const SoftmaxImplementations& implementations, const Exec& exec) {
  std::vector<float> twelve(12), four(4), three(3), two(2);
  std::vector<std::uint8_t> mask(4), short_mask(3);
  CHECK_NOTHROW(implementations.causal(exec, 2, HUGE_VALF, four, four));
  refused([&] { implementations.causal(exec, 0, 1.0F, {}, {}); });
  refused([&] { implementations.causal(exec, 3, 1.0F, four, four); });
  refused([&] { implementations.causal(exec, 3, 1.0F, twelve, twelve); });  // four rows of three
  refused([&] { implementations.causal(exec, 2, 1.0F, four, three); });
  refused([&] { implementations.causal_backward(exec, -1, 1.0F, {}, {}, {}); });
  refused([&] { implementations.causal_backward(exec, 2, 1.0F, three, four, four); });
  refused([&] { implementations.causal_backward(exec, 2, 1.0F, four, four, three); });
  refused([&] { implementations.causal_backward(exec, 3, 1.0F, twelve, twelve, twelve); });
  refused([&] { implementations.masked(exec, 0, 1.0F, {}, {}, {}); });
  refused([&] { implementations.masked(exec, 3, 1.0F, four, mask, four); });
  refused([&] { implementations.masked(exec, 2, 1.0F, four, short_mask, four); });
  refused([&] { implementations.masked(exec, 2, 1.0F, four, mask, three); });
  refused([&] { implementations.masked_backward(exec, 2, 1.0F, three, four, mask, four); });
  refused([&] { implementations.masked_backward(exec, 2, 1.0F, four, four, short_mask, four); });
  refused([&] { implementations.masked_backward(exec, 2, 1.0F, four, four, mask, three); });
  CHECK_NOTHROW(implementations.sink(exec, 1, 2, 1.0F, four, two, four, two));
  refused([&] { implementations.sink(exec, 1, 0, 1.0F, {}, two, {}, {}); });
  refused([&] { implementations.sink(exec, 0, 2, 1.0F, four, two, four, two); });
  refused([&] { implementations.sink(exec, 1, 2, 1.0F, four, {}, four, two); });
  refused([&] { implementations.sink(exec, 2, 2, 1.0F, four, two, four, two); });
  refused([&] { implementations.sink(exec, 1, 2, 1.0F, four, two, three, two); });
  refused([&] { implementations.sink(exec, 1, 2, 1.0F, four, two, four, three); });
  refused([&] { implementations.sink_backward(exec, 1, 2, 1.0F, four, four, three, four, two); });
  refused([&] { implementations.sink_backward(exec, 1, 2, 1.0F, three, four, two, four, two); });
  refused([&] { implementations.sink_backward(exec, 1, 2, 1.0F, four, four, two, three, two); });
  refused([&] { implementations.sink_backward(exec, 1, 2, 1.0F, four, four, two, four, {}); });
}

}  // namespace zeroproof::tests
