#pragma once
// Dropout, for the implementations of the host and those of the device.

#include <doctest.h>

#include <cmath>

#include "common/base/philox.hpp"
#include "common/contracts/bias_dropout.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/cuda/layers/layer_support.hpp"

namespace zeroproof::tests {

struct DropoutImplementations {
  BiasDropoutFn* bias_dropout;
  BiasDropoutBackwardFn* bias_dropout_backward;
};

inline std::uint32_t dropout_word(const DropoutDraw& draw, std::int64_t i) {
  return Philox(draw.seed, dropout_stream, static_cast<std::uint32_t>(draw.step))
      .word(draw.first_index + static_cast<std::uint64_t>(i));
}

inline void check_dropout_by_hand(const DropoutImplementations& implementations, const Exec& exec) {
  const float inf = HUGE_VALF, nan = std::nanf("");
  // Nothing is dropped: (x + bias) * 1 + residual, two rows of two.
  const std::vector<float> x = {1, 2, inf, -0.0F}, bias = {10, -0.0F},
                           residual = {100, 0.5F, 1, -0.0F};
  std::vector<float> y(4);
  implementations.bias_dropout(exec, {}, 2, 0.0, x, bias, residual, y);
  CHECK(y[0] == 111.0F);
  CHECK(y[1] == 2.5F);
  CHECK(y[2] == inf);
  CHECK((y[3] == 0.0F && std::signbit(y[3])));

  // Half is dropped, and the other elements double. A dropped NaN disappears; +0 + -0 is +0.
  constexpr std::int64_t numel = 1000;
  const DropoutDraw draw{5, 1, 3};
  std::vector<float> threes(numel, 3.0F), zeros(numel, -0.0F), out(numel), lost(numel), dx(numel);
  std::vector<float> nans(numel, nan);
  implementations.bias_dropout(exec, draw, 1, 0.5, threes, {}, zeros, out);
  implementations.bias_dropout(exec, draw, 1, 0.5, nans, {}, zeros, lost);
  implementations.bias_dropout_backward(exec, draw, 0.5, threes, dx);
  int kept = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const bool keep = dropout_word(draw, static_cast<std::int64_t>(i)) >= 0x80000000U;
    CHECK(out[i] == (keep ? 6.0F : 0.0F));
    CHECK_FALSE(std::signbit(out[i]));
    CHECK(std::isnan(lost[i]) == keep);
    CHECK(dx[i] == out[i]);
    kept += keep ? 1 : 0;
  }
  CHECK(kept > 400);
  CHECK(kept < 600);

  // The smallest probability that can drop, and the largest: T = 0, 1 and 2^32 - 1.
  implementations.bias_dropout_backward(exec, draw, 0x1p-33, threes, dx);
  CHECK(dx == threes);
  const double most = 1.0 - 0x1p-53;
  implementations.bias_dropout_backward(exec, draw, most, threes, dx);
  CHECK(dx == std::vector<float>(numel));
}

/// The draw depends on the index only, for any start of a buffer.
inline void check_dropout_cut(const DropoutImplementations& implementations, const Exec& exec) {
  constexpr std::int64_t numel = 700;
  const auto dy = filled(numel, 0, 1, false);
  Place<float> whole(numel, 0);
  const DropoutDraw draw{42, 7, (1ULL << 34) - 300};  // index / 4 passes 2^32
  implementations.bias_dropout_backward(exec, draw, 0.3, dy.span(), whole.span());
  for (std::int64_t begin : {1, 2, 3, 5, 257}) {
    Place<float> part(numel - begin, 1);
    DropoutDraw from = draw;
    from.first_index += static_cast<std::uint64_t>(begin);
    from.step += 1ULL << 32;  // the low word counts
    implementations.bias_dropout_backward(exec, from, 0.3, dy.span().subspan(begin), part.span());
    part.check([&](std::int64_t i) { return whole[begin + i]; });
  }
}

inline void check_dropout_shapes(const DropoutImplementations& implementations, const Exec& exec) {
  const double probability = 0.1;
  const auto threshold = static_cast<std::uint32_t>(std::floor(probability * 0x1p32));
  const auto scale = static_cast<float>(1.0 / (1.0 - probability));
  for (const Shape& s : shapes()) {
    CAPTURE(s.rows);
    CAPTURE(s.n);
    for (const int offset : {0, 1, 3}) {
      const std::int64_t numel = s.rows * s.n;
      const auto x = filled(numel, offset, 1, offset == 3),
                 residual = filled(numel, offset, 2, offset == 3);
      const auto bias = filled(s.n, 1, 3, offset == 3);
      const DropoutDraw draw{0x123456789ABCDEF0, 3, static_cast<std::uint64_t>(offset)};
      Place<float> y(numel, offset), plain(numel, 2), dx(numel, offset);
      implementations.bias_dropout(exec, draw, s.n, probability, x.span(), bias.span(),
                                   residual.span(), y.span());
      implementations.bias_dropout(exec, draw, s.n, probability, x.span(), {}, residual.span(),
                                   plain.span());
      implementations.bias_dropout_backward(exec, draw, probability, x.span(), dx.span());
      const auto kept = [&](std::int64_t i, float u) {
        return dropout_word(draw, i) >= threshold ? u * scale : 0.0F;
      };
      y.check([&](std::int64_t i) { return kept(i, x[i] + bias[i % s.n]) + residual[i]; });
      plain.check([&](std::int64_t i) { return kept(i, x[i]) + residual[i]; });
      dx.check([&](std::int64_t i) { return kept(i, x[i]); });
    }
  }
}

inline void check_dropout_refused(const DropoutImplementations& implementations, const Exec& exec) {
  std::vector<float> six(6), three(3), two(2);
  const auto refused = [](const std::function<void()>& call) {
    expect_error(ErrorCode::invalid_argument, call);
  };
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
