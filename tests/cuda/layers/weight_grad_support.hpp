#pragma once
// Gradients of weights and biases, for the implementations of the host and those of the device.

#include <doctest.h>

#include <cmath>

#include "common/base/float_formats.hpp"
#include "common/contracts/weight_grad.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/cuda/layers/layer_support.hpp"

namespace zeroproof::tests {

struct WeightGradImplementations {
  ColumnSumFn* column_sum;
  WeightGradFn* weight_grad;
  WeightGradBf16Fn* weight_grad_bf16;
};

inline void check_weight_grad_by_hand(const WeightGradImplementations& implementations,
                                      const Exec& exec) {
  std::vector<float> sums(2, -7.0F);
  implementations.column_sum(exec, std::vector<float>{1, 10, 2, 20, 3, 30}, sums);
  CHECK(sums == std::vector<float>{6, 60});
  implementations.column_sum(exec, {}, sums);  // an empty sum is +0, and a sum of -0 too
  CHECK(sums == std::vector<float>{0, 0});
  implementations.column_sum(exec, std::vector<float>{-0.0F, -0.0F}, sums);
  CHECK_FALSE(std::signbit(sums[0]));

  // Eight blocks of one: 2^24 + 1 is 2^24, but the next two are added first.
  std::vector<float> one(1);
  implementations.column_sum(exec, std::vector<float>{0x1p24F, 1, 1, 1, 0, 0, 0, 0}, one);
  CHECK(one[0] == 0x1p24F + 2.0F);
  implementations.column_sum(exec, std::vector<float>{0, 0, 0, 0, 0x1p24F, 1, 1, 1}, one);
  CHECK(one[0] == 0x1p24F + 2.0F);
  // Three blocks of 24 rows, in turn: in one block 1 is lost after 2^24, and not before it.
  std::vector<float> rows(24);
  rows[3] = 0x1p24F;
  rows[4] = rows[5] = 1.0F;
  implementations.column_sum(exec, rows, one);
  CHECK(one[0] == 0x1p24F);
  rows[3] = rows[4] = 1.0F;
  rows[5] = 0x1p24F;
  implementations.column_sum(exec, rows, one);
  CHECK(one[0] == 0x1p24F + 2.0F);

  // Two tokens, two outputs, three inputs; the previous value is a summand.
  const std::vector<float> dy = {1, 2, 3, 4}, x = {1, 0, 2, 0, 1, 1};
  std::vector<float> weight = {0.5F, 0, 0, 0, 0, 100};
  implementations.weight_grad(exec, 2, 2, 3, dy, x, weight);
  CHECK(weight == std::vector<float>{1.5F, 3, 5, 2, 4, 108});
  // Without tokens +0 is added, which changes -0 to +0.
  std::vector<float> none = {-0.0F, 3};
  implementations.weight_grad(exec, 0, 1, 2, {}, {}, none);
  CHECK_FALSE(std::signbit(none[0]));
  CHECK(none[1] == 3.0F);
  // The sum is computed first: 2^24 + (1 + 1).
  std::vector<float> big = {0x1p24F};
  const std::vector<float> ones = {1, 1};
  implementations.weight_grad(exec, 2, 1, 1, ones, ones, big);
  CHECK(big[0] == 0x1p24F + 2.0F);
  // Products are rounded: (1 + 2^-12)^2 - 1 - 2^-11 would be 2^-24 with a fused addition.
  std::vector<float> rounded(1);
  const float close = 1.0F + 0x1p-12F;
  std::vector<float> left(9), right(9);  // rows 7 and 8 are the last block
  left[7] = -1.0F - 0x1p-11F;
  right[7] = 1.0F;
  left[8] = right[8] = close;
  implementations.weight_grad(exec, 9, 1, 1, left, right, rounded);
  CHECK(rounded[0] == 0.0F);
  const std::vector<bf16> half = {{0x3F80}, {0x4000}},
                          third = {{0x4040}, {0x3F00}};  // 1, 2 and 3, 0.5
  implementations.weight_grad_bf16(exec, 2, 1, 1, half, third, rounded);
  CHECK(rounded[0] == 4.0F);
}

inline void check_column_sum_shapes(const WeightGradImplementations& implementations,
                                    const Exec& exec) {
  for (const Shape& s : shapes()) {
    CAPTURE(s.rows);
    CAPTURE(s.n);
    for (const int offset : {0, 1, 3}) {
      const auto x = filled(s.rows * s.n, offset, 1, offset == 3);
      Place<float> sums(s.n, 3 - offset);
      implementations.column_sum(exec, x.span(), sums.span());
      sums.check([&](std::int64_t j) {
        return sum_in_blocks(s.rows, [&](std::int64_t r) { return x[r * s.n + j]; });
      });
    }
  }
}

inline void check_weight_grad_shapes(const WeightGradImplementations& implementations,
                                     const Exec& exec) {
  struct Weights {
    std::int64_t tokens, outputs, inputs;
  };
  for (const Weights& s : {Weights{1, 1, 1}, Weights{0, 3, 5}, Weights{7, 3, 17}, Weights{8, 4, 16},
                           Weights{33, 5, 31}, Weights{140, 66, 65}, Weights{300, 9, 129}}) {
    CAPTURE(s.tokens);
    CAPTURE(s.outputs);
    CAPTURE(s.inputs);
    for (const int offset : {0, 1, 3}) {
      const bool special = offset == 3;
      const auto dy = filled(s.tokens * s.outputs, offset, 1, special);
      const auto x = filled(s.tokens * s.inputs, 3 - offset, 2, special);
      Place<float> weight = filled(s.outputs * s.inputs, offset, 3, special);
      const Place<float> before = weight;
      implementations.weight_grad(exec, s.tokens, s.outputs, s.inputs, dy.span(), x.span(),
                                  weight.span());
      weight.check([&](std::int64_t i) {
        const std::int64_t o = i / s.inputs;
        return before[i] + sum_in_blocks(s.tokens, [&](std::int64_t t) {
                 return dy[t * s.outputs + o] * x[t * s.inputs + i % s.inputs];
               });
      });

      Place<bf16> half_dy(s.tokens * s.outputs, offset), half_x(s.tokens * s.inputs, 1);
      for (std::size_t i = 0; i < half_dy.span().size(); ++i)
        half_dy.span()[i] = to_bf16(dy[static_cast<std::int64_t>(i)]);
      for (std::size_t i = 0; i < half_x.span().size(); ++i)
        half_x.span()[i] = to_bf16(x[static_cast<std::int64_t>(i)]);
      Place<float> sum = before;
      implementations.weight_grad_bf16(exec, s.tokens, s.outputs, s.inputs, half_dy.span(),
                                       half_x.span(), sum.span());
      sum.check([&](std::int64_t i) {
        const std::int64_t o = i / s.inputs;
        return before[i] + sum_in_blocks(s.tokens, [&](std::int64_t t) {
                 return to_float(half_dy[t * s.outputs + o]) *
                        to_float(half_x[t * s.inputs + i % s.inputs]);
               });
      });
    }
  }
}

inline void check_weight_grad_refused(const WeightGradImplementations& implementations,
                                      const Exec& exec) {
  std::vector<float> six(6), three(3), two(2);
  std::vector<bf16> six_halves(6), two_halves(2);
  const auto refused = [](const std::function<void()>& call) {
    expect_error(ErrorCode::invalid_argument, call);
  };
  refused([&] { implementations.column_sum(exec, six, {}); });
  refused([&] { implementations.column_sum(exec, three, two); });
  CHECK_NOTHROW(implementations.weight_grad(exec, 2, 1, 3, two, six, three));
  refused([&] { implementations.weight_grad(exec, -2, 1, 3, two, six, three); });
  refused([&] { implementations.weight_grad(exec, 2, 0, 3, {}, six, {}); });
  refused([&] { implementations.weight_grad(exec, 2, 1, 0, two, {}, {}); });
  refused([&] { implementations.weight_grad(exec, 2, 1, 3, three, six, three); });
  refused([&] { implementations.weight_grad(exec, 2, 1, 3, two, three, three); });
  refused([&] { implementations.weight_grad(exec, 2, 1, 3, two, six, six); });
  refused([&] { implementations.weight_grad(exec, 0, 1, 3, two, {}, three); });
  refused([&] {
    implementations.weight_grad(exec, std::int64_t{1} << 62, 4, 4, {}, {}, {});
  });  // 2^64 must not wrap to 0
  CHECK_NOTHROW(implementations.weight_grad_bf16(exec, 2, 1, 3, two_halves, six_halves, three));
  refused([&] { implementations.weight_grad_bf16(exec, 2, 1, 3, two_halves, two_halves, three); });
}

}  // namespace zeroproof::tests
