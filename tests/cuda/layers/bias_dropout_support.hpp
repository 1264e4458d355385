#pragma once
// Dropout, for the implementations of the host and those of the device.

#include "common/base/philox.hpp"
#include "common/contracts/bias_dropout.hpp"
#include "reference/operations.hpp"
#include "tests/cuda/layers/layer_support.hpp"

namespace zeroproof::tests {

struct DropoutImplementations {
  BiasDropoutFn* bias_dropout;
  BiasDropoutBackwardFn* bias_dropout_backward;
};

/// The draw depends on the index only, for any start of a buffer.
inline void check_dropout_cut(const DropoutImplementations& implementations, const Exec& exec) {
  constexpr std::int64_t numel = 700;
  const auto dy = filled(numel, 0, 1, false);
  Place<float> whole(numel, 0);
  const DropoutDraw draw{42, 7, (1ULL << 34) - 300};  // index / 4 passes 2^32
  reference::bias_dropout_backward({}, draw, 0.3, dy.span(), whole.span());
  for (std::int64_t begin : {0, 1, 2, 3, 5, 257}) {
    Place<float> part(numel - begin, 1);
    DropoutDraw from = draw;
    from.first_index += static_cast<std::uint64_t>(begin);
    from.step += 1ULL << 32;  // the low word counts
    implementations.bias_dropout_backward(exec, from, 0.3, dy.span().subspan(begin), part.span());
    part.check([&](std::int64_t i) { return whole[begin + i]; });
  }
}

inline Outputs dropout_outputs(const DropoutImplementations& implementations, const Exec& exec,
                               const Shape& s, int offset) {
  const std::int64_t numel = s.rows * s.n;
  const double probability = 0.1;
  const auto x = filled(numel, offset, 1, offset == 3),
             residual = filled(numel, offset, 2, offset == 3);
  const auto bias = filled(s.n, 1, 3, offset == 3);
  const DropoutDraw draw{0x123456789ABCDEF0, 3, static_cast<std::uint64_t>(offset)};
  Place<float> y(numel, offset), plain(numel, 2), dx(numel, offset);
  implementations.bias_dropout(exec, draw, s.n, probability, x.span(), bias.span(), residual.span(),
                               y.span());
  implementations.bias_dropout(exec, draw, s.n, probability, x.span(), {}, residual.span(),
                               plain.span());
  implementations.bias_dropout_backward(exec, draw, probability, x.span(), dx.span());
  return {y, plain, dx};
}

inline void check_dropout_shapes(const DropoutImplementations& implementations, const Exec& exec) {
  constexpr DropoutImplementations expected{reference::bias_dropout,
                                            reference::bias_dropout_backward};
  for (const Shape& s : shapes()) {
    CAPTURE(s.rows);
    CAPTURE(s.n);
    for (const int offset : {0, 1, 3}) {
      check_same(dropout_outputs(implementations, exec, s, offset),
                 dropout_outputs(expected, {}, s, offset));
    }
  }
  // The smallest probability that can drop, and the largest: T = 0, 1 and 2^32 - 1. With the last
  // one, T is the word of element 500.
  const double word = Philox(5, dropout_stream, 1).word(503);
  for (const double probability : {0x1p-33, 0x1p-32, 1.0 - 0x1p-53, word * 0x1p-32}) {
    const auto dy = filled(1000, 0, 4, false);
    Outputs got{{1000, 1}}, want{{1000, 1}};
    implementations.bias_dropout_backward(exec, {5, 1, 3}, probability, dy.span(), got[0].span());
    expected.bias_dropout_backward({}, {5, 1, 3}, probability, dy.span(), want[0].span());
    check_same(got, want);
  }
}

inline void check_dropout_refused(const DropoutImplementations& implementations, const Exec& exec) {
  std::vector<float> six(6), three(3), two(2);
  CHECK_NOTHROW(implementations.bias_dropout(exec, {}, 3, 0.5, six, three, six, six));
  refused([&] { implementations.bias_dropout(exec, {}, 0, 0.5, six, {}, six, six); });
  refused([&] { implementations.bias_dropout(exec, {}, 4, 0.5, six, {}, six, six); });
  refused([&] { implementations.bias_dropout(exec, {}, 3, 0.5, six, two, six, six); });
  refused([&] { implementations.bias_dropout(exec, {}, 3, 0.5, six, three, three, six); });
  refused([&] { implementations.bias_dropout(exec, {}, 3, 0.5, six, three, six, three); });
  refused([&] { implementations.bias_dropout_backward(exec, {}, 0.5, six, three); });
  for (const double probability : {-0.1, 1.0, 2.0, std::nan("")}) {
    refused([&] { implementations.bias_dropout(exec, {}, 3, probability, six, three, six, six); });
    refused([&] { implementations.bias_dropout_backward(exec, {}, probability, six, six); });
  }
}

}  // namespace zeroproof::tests
