#include "reference/operations.hpp"
#include "tests/reference/layers/activations_support.hpp"

namespace activations_test {

using namespace zeroproof;
using namespace zeroproof::tests;

TEST_CASE("bias_gelu: by hand, without roundings where the tanh is 0 or 1") {
  // u = 0, -0, 16 and -16: the tanh is 0, -0, 1 and -1.
  const std::vector<float> x = {0, -0.0F, 15, -17}, bias = {0, -0.0F, 1, 1}, dy = {3, 3, 3, 3};
  std::vector<float> y(4), dx(4);
  reference::bias_gelu({}, 4, x, bias, y);
  CHECK(bits(y) == bits(std::vector<float>{0, -0.0F, 16, -0.0F}));
  reference::bias_gelu_backward({}, 4, dy, x, bias, dx);
  // Slope: 1/2 in the middle; 1 and 0 outside, where (1 - t^2) is 0.
  CHECK(bits(dx) == bits(std::vector<float>{1.5F, 1.5F, 3, 0}));
}

TEST_CASE("bias_gelu: an empty bias is not added; values that are not finite") {
  const std::vector<float> x = {-0.0F, nan32, inf32, -inf32, 1e30F, -1e30F};
  std::vector<float> y(6), dx(6);
  reference::bias_gelu({}, 2, x, {}, y);
  CHECK(bits(y) == bits(std::vector<float>{-0.0F, nan32, inf32, nan32, 1e30F, -0.0F}));
  const std::vector<float> zeros(2, 0.0F), dy(6, 1.0F);
  reference::bias_gelu({}, 2, x, zeros, y);
  CHECK(bits(y[0]) == bits(0.0F));  // -0 + 0
  reference::bias_gelu_backward({}, 2, dy, x, {}, dx);
  CHECK(bits(dx) ==
        bits(std::vector<float>{0.5F, nan32, nan32, nan32, nan32, nan32}));  // u^2 overflows
}

TEST_CASE("geglu: by hand") {
  // Two rows of two: gates 16 and 0, 0 and -16.
  const std::vector<float> x = {16, 0, 3, 5, 0, -16, 7, 9}, dy = {1, 2, 3, 4};
  std::vector<float> y(4), dx(8);
  reference::geglu({}, 2, x, {}, y);
  CHECK(bits(y) == bits(std::vector<float>{48, 0, 0, -0.0F}));
  reference::geglu_backward({}, 2, dy, x, {}, dx);
  CHECK(bits(dx) == bits(std::vector<float>{3, 5, 16, 0, 10.5F, 0, 0, -0.0F}));
  const std::vector<float> bias = {1, 0, -1, 0}, moved = {15, 0, 4, 5, -1, -16, 8, 9};
  std::vector<float> again(8);
  reference::geglu_backward({}, 2, dy, moved, bias, again);
  CHECK(bits(again) == bits(dx));
}

TEST_CASE("swiglu: by hand, gates with a sigmoid of 1/2 and 1") {
  const std::vector<float> x = {0, 32, 3, 5, 32, 0, -7, 9}, dy = {1, 2, 3, 4}, weight = {2, -1};
  std::vector<float> y(4), dx(8), d_weight(2);
  reference::swiglu({}, 2, 0, x, {}, {}, y);
  CHECK(bits(y) == bits(std::vector<float>{0, 160, -224, 0}));
  reference::swiglu({}, 2, 0, x, {}, weight, y);
  CHECK(bits(y) == bits(std::vector<float>{0, 320, 224, -0.0F}));
  reference::swiglu_backward({}, 2, 0, dy, x, {}, weight, dx, d_weight);
  // Slope of the gate: 1/2 at 0, 1 at 32; times g and the linear part.
  CHECK(bits(dx) == bits(std::vector<float>{3, 20, 0, 128, 21, -18, -96, -0.0F}));
  CHECK(bits(d_weight) == bits(std::vector<float>{2 * 160, 3 * -224}));
}

TEST_CASE("swiglu: limits clamp values and gradients; at the limit itself gradients pass") {
  // limit 32; linear parts above, at, below -32, at -32, inside; the gate only from above.
  const std::vector<float> x = {33, 32, 0, 0, 64, 33, 32, -33, -32, 5}, dy = {1, 1, 1, 1, 1};
  std::vector<float> y(5), dx(10);
  reference::swiglu({}, 5, 32, x, {}, {}, y);
  CHECK(bits(y) == bits(std::vector<float>{1024, 1024, -0.0F, -0.0F, 160}));
  reference::swiglu_backward({}, 5, 32, dy, x, {}, {}, dx, {});
  CHECK(bits(dx) == bits(std::vector<float>{0, 32, -16, -16, 0, 0, 32, 0, 0, 32}));
  const std::vector<float> odd = {nan32, 1, -inf32, 1, nan32, 1};
  std::vector<float> out(3), grads(6);
  reference::swiglu({}, 3, 2, odd, {}, {}, out);
  CHECK(bits(out) ==
        bits(std::vector<float>{nan32, nan32, nan32}));  // -infinity times the sigmoid's 0
  reference::swiglu_backward({}, 3, 2, Span<const float>(dy).first(3), odd, {}, {}, grads, {});
  CHECK(std::isnan(grads[0]));
  CHECK(std::isnan(grads[3]));
  CHECK(std::isnan(grads[1]));  // dy times a linear part that is NaN
  const std::vector<float> scaled = {1};
  for (const float bad : {-1.0F, inf32, nan32, -0x1p-149F}) {
    ZP_CHECK_INVALID(reference::swiglu({}, 3, bad, odd, {}, {}, out));
    ZP_CHECK_INVALID(reference::swiglu_backward({}, 3, bad, Span<const float>(dy).first(3), odd, {},
                                                {}, grads, {}));
  }
  reference::swiglu({}, 3, -0.0F, odd, {}, scaled, out);
}

TEST_CASE("quick_geglu: by hand, the offset is always added to the linear part") {
  const std::vector<float> x = {0, 32, 3, -1}, dy = {1, 2};
  std::vector<float> y(2), dx(4);
  reference::quick_geglu({}, 2, 1, x, {}, {}, y);
  CHECK(bits(y) == bits(std::vector<float>{0, 0}));
  reference::quick_geglu_backward({}, 2, 1, dy, x, {}, {}, dx, {});
  CHECK(bits(dx) == bits(std::vector<float>{2, 0, 0, 64}));
  const std::vector<float> minus_zero = {32, -0.0F};
  reference::quick_geglu({}, 1, 0, minus_zero, {}, {}, Span<float>(y).first(1));
  CHECK(bits(y[0]) == bits(0.0F));  // -0 + 0
}

TEST_CASE("squared_relu: by hand") {
  const std::vector<float> x = {3, -3, 0, -0.0F, nan32, inf32, -inf32, 0x1p-80F};
  const std::vector<float> dy = {5, 5, -5, 5, 5, 5, 5, 5}, weight = {2, 4};
  std::vector<float> y(8), dx(8), d_weight(2);
  reference::squared_relu({}, 4, x, weight, y);
  CHECK(bits(y) == bits(std::vector<float>{18, 0, 0, 0, nan32, inf32, 0, 0}));
  reference::squared_relu_backward({}, 4, dy, x, weight, dx, d_weight);
  CHECK(bits(dx) == bits(std::vector<float>{60, 0, -0.0F, 0, nan32, inf32, 0, 0x1p-79F * 20}));
  CHECK(bits(d_weight) == bits(std::vector<float>{45, nan32}));
}

TEST_CASE("activations: every element equals the contract, line by line") {
  for (const std::int64_t columns : {1, 3, 7, 1024, 1025}) {
    CAPTURE(columns);
    const std::int64_t rows = 5, numel = rows * columns;
    const std::vector<float> x = random_values(2 * numel, 1, 4), dy = random_values(numel, 2, 4),
                             bias = random_values(2 * columns, 3, 4),
                             weight = random_values(rows, 4, 4);
    std::vector<float> y(dy.size()), dx(x.size()), d_weight(weight.size());
    reference::bias_gelu({}, columns, dy, Span<const float>(bias).first(columns), y);
    CHECK(bits(y) == bits(literal_bias_gelu(columns, dy, bias)));
    for (const float limit : {0.0F, 1.5F}) {
      reference::swiglu({}, columns, limit, x, bias, weight, y);
      const LiteralSwiglu literal(columns, limit, x, bias, weight, dy);
      CHECK(bits(y) == bits(literal.y));
      reference::swiglu_backward({}, columns, limit, dy, x, bias, weight, dx, d_weight);
      CHECK(bits(dx) == bits(literal.dx));
      CHECK(bits(d_weight) == bits(literal.d_weight));
    }
  }
}

TEST_CASE("activations: views of wrong lengths are rejected") {
  const std::vector<float> x(12), dy(6), bias(6), weight(2);
  std::vector<float> y(6), dx(12), d_weight(2);
  const Span<const float> short_x = Span<const float>(x).first(11);
  reference::swiglu({}, 3, 0, x, bias, weight, y);
  reference::swiglu_backward({}, 3, 0, dy, x, bias, weight, dx, d_weight);
  ZP_CHECK_INVALID(reference::swiglu({}, 0, 0, x, bias, weight, y));
  ZP_CHECK_INVALID(reference::swiglu({}, -3, 0, x, bias, weight, y));
  ZP_CHECK_INVALID(reference::swiglu({}, 4, 0, x, {}, {}, y));
  ZP_CHECK_INVALID(reference::swiglu({}, 3, 0, short_x, bias, weight, y));
  ZP_CHECK_INVALID(reference::swiglu({}, 3, 0, x, Span<const float>(bias).first(3), weight, y));
  ZP_CHECK_INVALID(reference::swiglu({}, 3, 0, x, bias, Span<const float>(weight).first(1), y));
  ZP_CHECK_INVALID(reference::swiglu_backward({}, 3, 0, dy, x, bias, weight, dx, {}));
  ZP_CHECK_INVALID(reference::swiglu_backward({}, 3, 0, dy, x, bias, {}, dx, d_weight));
  ZP_CHECK_INVALID(reference::swiglu_backward({}, 3, 0, dy, x, bias, weight, y, d_weight));
  ZP_CHECK_INVALID(reference::quick_geglu({}, 3, 0, short_x, bias, weight, y));
  ZP_CHECK_INVALID(reference::geglu({}, 3, short_x, bias, y));
  ZP_CHECK_INVALID(reference::geglu_backward({}, 3, dy, x, bias, y));
  ZP_CHECK_INVALID(reference::bias_gelu({}, 3, dy, Span<const float>(bias).first(2), y));
  ZP_CHECK_INVALID(reference::bias_gelu_backward({}, 3, dy, x, {}, dx));
  ZP_CHECK_INVALID(reference::squared_relu({}, 3, x, weight, y));
  ZP_CHECK_INVALID(reference::squared_relu_backward({}, 3, dy, dy, weight, y, {}));
  reference::swiglu_backward({}, 3, 0, {}, {}, bias, {}, {}, {});  // no rows
}

}  // namespace activations_test
