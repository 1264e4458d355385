#pragma once
// Gradients of weights and biases, for the implementations of the host and those of the device.

#include "common/base/float_formats.hpp"
#include "common/contracts/weight_grad.hpp"
#include "reference/operations.hpp"
#include "tests/cuda/layers/layer_support.hpp"

namespace zeroproof::tests {

struct WeightGradImplementations {
  ColumnSumFn* column_sum;
  WeightGradFn* weight_grad;
  WeightGradBf16Fn* weight_grad_bf16;
};

inline Outputs column_sum_outputs(const WeightGradImplementations& implementations,
                                  const Exec& exec, const Shape& s, int offset) {
  Outputs sums{{s.n, 3 - offset}};
  const auto x = filled(s.rows * s.n, offset, 1, offset == 3);
  implementations.column_sum(exec, x.span(), sums[0].span());
  return sums;
}

struct WeightShape {
  std::int64_t tokens, outputs, inputs;
};

/// Both gradients, added to the same weight.
inline Outputs weight_grad_outputs(const WeightGradImplementations& implementations,
                                   const Exec& exec, const WeightShape& s, int offset) {
  const bool special = offset == 3;
  const auto dy = filled(s.tokens * s.outputs, offset, 1, special);
  const auto x = filled(s.tokens * s.inputs, 3 - offset, 2, special);
  Place<bf16> half_dy(s.tokens * s.outputs, offset), half_x(s.tokens * s.inputs, 1);
  reference::cast_to_bf16({}, dy.span(), half_dy.span());
  reference::cast_to_bf16({}, x.span(), half_x.span());
  Outputs weights(2, filled(s.outputs * s.inputs, offset, 3, special));
  implementations.weight_grad(exec, s.tokens, s.outputs, s.inputs, dy.span(), x.span(),
                              weights[0].span());
  implementations.weight_grad_bf16(exec, s.tokens, s.outputs, s.inputs, half_dy.span(),
                                   half_x.span(), weights[1].span());
  return weights;
}

inline void check_weight_grad_shapes(const WeightGradImplementations& implementations,
                                     const Exec& exec) {
  constexpr WeightGradImplementations expected{reference::column_sum, reference::weight_grad,
                                               reference::weight_grad_bf16};
  for (const int offset : {0, 1, 3}) {
    for (const Shape& s : shapes()) {
      CAPTURE(s.rows);
      CAPTURE(s.n);
      check_same(column_sum_outputs(implementations, exec, s, offset),
                 column_sum_outputs(expected, {}, s, offset));
    }
    for (const WeightShape& s :
         {WeightShape{1, 1, 1}, WeightShape{0, 3, 5}, WeightShape{7, 3, 17}, WeightShape{8, 4, 16},
          WeightShape{33, 5, 31}, WeightShape{140, 66, 65}, WeightShape{300, 9, 129}}) {
      CAPTURE(s.tokens);
      CAPTURE(s.outputs);
      CAPTURE(s.inputs);
      check_same(weight_grad_outputs(implementations, exec, s, offset),
                 weight_grad_outputs(expected, {}, s, offset));
    }
  }
}

inline void check_weight_grad_refused(const WeightGradImplementations& implementations,
                                      const Exec& exec) {
  std::vector<float> six(6), three(3), two(2);
  std::vector<bf16> six_halves(6), two_halves(2);
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
