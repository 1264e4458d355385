#pragma once
// Numbers that can be followed by hand: sigmoid and tanh are 0, 1/2 or 1 in them.

#include "tests/cuda/layers/activations_support.hpp"

namespace zeroproof::tests {

using Values = std::vector<float>;

inline void check_equal(const Values& got, const Values& expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CAPTURE(got[i]);
    CAPTURE(expected[i]);
    CHECK(device_test::same(got[i], expected[i]));
  }
}

inline void check_activations_by_hand(const ActivationImplementations& implementations,
                                      const Exec& exec) {
  const float nan = std::nanf(""), infinite = __builtin_inff();
  {
    // u = 0, 100 (tanh 1), -100 (tanh -1), -infinity (infinity * 0); gelu'(0) = 1/2, gelu'(100) = 1.
    Values y(4), dx(4);
    const Values x = {1.0F, 100.0F, -101.0F, -infinite}, bias = {-1.0F, 0.0F, 1.0F, 0.0F};
    implementations.bias_gelu(exec, 4, x, bias, y);
    check_equal(y, {0.0F, 100.0F, -0.0F, nan});
    implementations.bias_gelu_backward(exec, 4, Values(4, 3.0F), x, bias, dx);
    check_equal(dx, {1.5F, 3.0F, 0.0F, nan});
  }
  {
    // Without a bias -0 stays -0. Rows: gates 0 and 100, linear parts 7 and 5.
    Values y(2), dx(4);
    const Values x = {-0.0F, 100.0F, 7.0F, 5.0F}, dy = {2.0F, 3.0F};
    implementations.geglu(exec, 2, x, {}, y);
    check_equal(y, {-0.0F, 500.0F});
    implementations.geglu_backward(exec, 2, dy, x, {}, dx);
    check_equal(dx, {7.0F, 15.0F, -0.0F, 300.0F});
  }
  {
    // sigmoid(0) = 1/2, its slope there 1/2; sigmoid(170.2) = 1. Linear parts 7 and 1, offset 1: f = 0 and 200.
    Values y(2), dx(4), d_weight(1);
    const Values x = {0.0F, 100.0F, 7.0F, 1.0F}, dy = {2.0F, 3.0F}, weight = {0.5F};
    implementations.quick_geglu(exec, 2, 1.0F, x, {}, weight, y);
    check_equal(y, {0.0F, 100.0F});
    implementations.quick_geglu_backward(exec, 2, 1.0F, dy, x, {}, weight, dx, d_weight);
    check_equal(dx, {4.0F, 3.0F, 0.0F, 150.0F});
    check_equal(d_weight, {600.0F});
    // An offset of 0 is added all the same: -0 + 0 is +0.
    Values one(1);
    implementations.quick_geglu(exec, 1, 0.0F, Values{100.0F, -0.0F}, {}, {}, one);
    check_equal(one, {0.0F});
    implementations.swiglu(exec, 1, 0.0F, Values{100.0F, -0.0F}, {}, {}, one);
    check_equal(one, {-0.0F});
  }
  {
    // Limit 50: gates 100, 50, -200 and NaN become 50, 50, -200, NaN; linear parts 60, -60, 2, 50 become 50, -50, 2,
    // 50.
    Values y(4), dx(8);
    const Values x = {100.0F, 50.0F, -200.0F, nan, 60.0F, -60.0F, 2.0F, 50.0F}, dy(4, 2.0F);
    implementations.swiglu(exec, 4, 50.0F, x, {}, {}, y);
    check_equal(y, {2500.0F, -2500.0F, -0.0F, nan});
    implementations.swiglu_backward(exec, 4, 50.0F, dy, x, {}, {}, dx, {});
    check_equal(dx, {0.0F, -100.0F, -0.0F, nan, 0.0F, 0.0F, -0.0F, nan});
    implementations.swiglu(exec, 4, -0.0F, x, {}, {}, y);  // none
    check_equal(y, {6000.0F, -3000.0F, -0.0F, nan});
  }
  {
    Values y(4), dx(4), d_weight(2);
    const Values x = {3.0F, -3.0F, -0.0F, nan}, dy = {5.0F, -5.0F, infinite, 1.0F},
                 weight = {2.0F, 1.0F};
    implementations.squared_relu(exec, 2, x, weight, y);
    check_equal(y, {18.0F, 0.0F, 0.0F, nan});
    implementations.squared_relu_backward(exec, 2, dy, x, weight, dx, d_weight);
    check_equal(dx, {60.0F, -0.0F, nan, nan});
    check_equal(d_weight, {45.0F, nan});
  }
  {
    // -0 is not above 0: m is +0, and dx has the sign of dy.
    Values dx(2);
    implementations.squared_relu_backward(exec, 2, Values{3.0F, -3.0F}, Values{-0.0F, -0.0F}, {},
                                          dx, {});
    check_equal(dx, {0.0F, -0.0F});
  }
  // The sum for the weight, in the blocks of R18: x = 1, so every summand is dy. Summands of any size show the order.
  for (const std::int64_t columns : {1, 7, 8, 9, 100, 1027, 3000}) {
    CAPTURE(columns);
    const auto n = static_cast<std::size_t>(columns);
    Values dy(3 * n), dx(3 * n), d_weight(3), expected;
    for (std::size_t i = 0; i < dy.size(); ++i)
      dy[i] = static_cast<float>(device_test::hash(i, 9)) * (i % 3 == 0 ? -0x1p-30F : 0x1p-20F);
    for (std::size_t row = 0; row < 3; ++row) {
      float s[8] = {};
      for (std::size_t b = 0; b < 8; ++b)
        for (std::size_t j = n * b / 8; j < n * (b + 1) / 8; ++j) s[b] = s[b] + dy[row * n + j];
      expected.push_back(((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7])));
    }
    implementations.squared_relu_backward(exec, columns, dy, Values(3 * n, 1.0F), Values(3, 1.0F),
                                          dx, d_weight);
    check_equal(d_weight, expected);
  }
}

inline void check_activations_refused(const ActivationImplementations& implementations,
                                      const Exec& exec) {
  Values two(2), three(3), four(4), eight(8), none;
  const auto refused = [](const std::function<void()>& call) {
    expect_error(ErrorCode::invalid_argument, call);
  };
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
