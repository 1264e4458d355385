#include "common/base/float_formats.hpp"
#include "reference/operations.hpp"
#include "tests/reference/layers/slopes_support.hpp"

namespace dropout_and_weights_test {

using namespace zeroproof;
using namespace zeroproof::tests;

TEST_CASE("bias_dropout: the random words select elements, which are doubled at one half") {
  const DropoutDraw draw{99, 3, 10};
  const Philox words(99, dropout_stream, 3);
  const std::vector<float> x = random_values(60, 1), bias = {1, -1, 2},
                           residual = random_values(60, 2);
  std::vector<float> y(60), dx(60);
  reference::bias_dropout({}, draw, 3, 0.5, x, bias, residual, y);
  reference::bias_dropout_backward({}, draw, 0.5, residual, dx);
  int kept = 0;
  for (std::size_t i = 0; i < 60; ++i) {
    const bool stays = words.word(10 + i) >= 0x80000000U;
    kept += stays ? 1 : 0;
    const float u = x[i] + bias[i % 3];
    CHECK(bits(y[i]) == bits((stays ? u * 2 : 0.0F) + residual[i]));
    CHECK(bits(dx[i]) == bits(stays ? residual[i] * 2 : 0.0F));
  }
  CHECK(kept > 15);
  CHECK(kept < 45);
}

TEST_CASE("bias_dropout: any parts drop the same elements; probability 0 drops none") {
  const std::vector<float> x = random_values(4000, 1), residual = random_values(4000, 2);
  std::vector<float> whole(4000), parts(4000);
  reference::bias_dropout({}, {7, 1, 0}, 1, 0.3, x, {}, residual, whole);
  const auto of = [](const std::vector<float>& view, std::size_t begin, std::size_t count) {
    return Span<const float>(view).subspan(begin, count);
  };
  for (const auto& [begin, count] :
       {std::pair<std::size_t, std::size_t>{0, 1}, {1, 1030}, {1031, 2969}}) {
    reference::bias_dropout({}, {7, 1, begin}, 1, 0.3, of(x, begin, count), {},
                            of(residual, begin, count), Span<float>(parts).subspan(begin, count));
  }
  CHECK(bits(parts) == bits(whole));
  std::vector<float> all(4000), sum;
  reference::bias_dropout({}, {7, 1, 0}, 1, 0, x, {}, residual, all);
  for (std::size_t i = 0; i < 4000; ++i) sum.push_back(x[i] + residual[i]);
  CHECK(bits(all) == bits(sum));
  for (const double bad : {-0.1, 1.0, nan64}) {
    ZP_CHECK_INVALID(reference::bias_dropout({}, {}, 1, bad, x, {}, residual, all));
    ZP_CHECK_INVALID(reference::bias_dropout_backward({}, {}, bad, x, all));
  }
  ZP_CHECK_INVALID(reference::bias_dropout({}, {}, 3, 0.1, x, {}, residual, all));
  ZP_CHECK_INVALID(
      reference::bias_dropout({}, {}, 4, 0.1, x, Span<const float>(x).first(3), residual, all));
  ZP_CHECK_INVALID(reference::bias_dropout_backward({}, {}, 0.1, x, Span<float>(all).first(3)));
}

TEST_CASE("bias_dropout: the mean is preserved") {
  // 2^16 ones: kept / 0.7 each. The standard deviation of their mean is sqrt(0.3 / 0.7 / 2^16) =
  // 0.0026.
  const std::vector<float> ones(1 << 16, 1.0F), zeros(1 << 16, 0.0F);
  std::vector<float> y(1 << 16);
  reference::bias_dropout({}, {5, 2, 0}, 1, 0.3, ones, {}, zeros, y);
  double mean = 0;
  for (const float value : y) mean += double{value} / (1 << 16);
  CHECK(std::fabs(mean - 1) < 4 * 0.0026);
}

TEST_CASE("weight_grad: by hand, products over tokens are added to the gradient") {
  // 3 tokens, 2 outputs, 2 inputs.
  const std::vector<float> dy = {1, 2, 3, 4, 5, 6}, x = {1, 0, 0, 1, 2, 2};
  std::vector<float> grad = {100, 200, 300, 400}, none = {-0.0F, 1, 2, 3}, sums(2);
  reference::weight_grad({}, 3, 2, 2, dy, x, grad);
  CHECK(bits(grad) == bits(std::vector<float>{111, 213, 314, 416}));
  reference::weight_grad({}, 0, 2, 2, {}, {}, none);
  CHECK(bits(none) == bits(std::vector<float>{0, 1, 2, 3}));
  reference::column_sum({}, dy, sums);
  CHECK(bits(sums) == bits(std::vector<float>{9, 12}));
  reference::column_sum({}, {}, sums);
  CHECK(bits(sums) == bits(std::vector<float>{0, 0}));
  ZP_CHECK_INVALID(reference::column_sum({}, dy, Span<float>(grad)));
  ZP_CHECK_INVALID(reference::column_sum({}, dy, {}));
  ZP_CHECK_INVALID(reference::weight_grad({}, 3, 2, 2, dy, x, Span<float>(grad).first(3)));
  ZP_CHECK_INVALID(reference::weight_grad({}, 2, 2, 2, dy, x, grad));
  ZP_CHECK_INVALID(reference::weight_grad({}, -1, 2, 2, dy, x, grad));
  ZP_CHECK_INVALID(reference::weight_grad({}, 0, 0, 2, {}, {}, {}));
}

TEST_CASE("weight_grad: the order of R18, and the same from bf16") {
  const std::int64_t tokens = 19;
  const std::vector<float> dy = random_values(tokens, 1), x = random_values(tokens, 2);
  std::vector<float> grad = {0.25F};
  reference::weight_grad({}, tokens, 1, 1, dy, x, grad);
  float s[8] = {};
  for (std::int64_t b = 0; b < 8; ++b) {
    for (std::int64_t t = tokens * b / 8; t < tokens * (b + 1) / 8; ++t) {
      const float product = dy[t] * x[t];
      s[b] = s[b] + product;
    }
  }
  const float left = (s[0] + s[1]) + (s[2] + s[3]), right = (s[4] + s[5]) + (s[6] + s[7]);
  CHECK(bits(grad[0]) == bits(0.25F + (left + right)));

  std::vector<bf16> narrow_dy(19), narrow_x(19);
  reference::cast_to_bf16({}, dy, narrow_dy);
  reference::cast_to_bf16({}, x, narrow_x);
  std::vector<float> wide_dy, wide_x, from_narrow(19 * 19), from_wide(19 * 19);
  for (const bf16 value : narrow_dy) wide_dy.push_back(to_float(value));
  for (const bf16 value : narrow_x) wide_x.push_back(to_float(value));
  reference::weight_grad_bf16({}, 1, 19, 19, narrow_dy, narrow_x, from_narrow);
  reference::weight_grad({}, 1, 19, 19, wide_dy, wide_x, from_wide);
  CHECK(bits(from_narrow) == bits(from_wide));
}

}  // namespace dropout_and_weights_test
