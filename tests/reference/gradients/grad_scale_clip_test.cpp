#include "reference/operations.hpp"
#include "tests/reference/support.hpp"

namespace grad_scale_clip_test {

using namespace zeroproof;
using namespace zeroproof::tests;

TEST_CASE("unscale: found_inf is computed after the product") {
  std::vector<float> sum = {3, -0.0F, 0x1p-149F, 1e20F};
  std::vector<float> unscaled(4);
  CHECK_FALSE(reference::unscale({}, 0.25F, sum, unscaled));
  CHECK(bits(unscaled) == bits(std::vector<float>{0.75F, -0.0F, 0.0F, 2.5e19F}));

  // Infinite only after the product: finite 3e38 * 2. Conversely, no factor makes infinity finite.
  sum = {1, 3e38F};
  unscaled = {0, 0};
  CHECK_FALSE(reference::unscale({}, 1.0F, sum, unscaled));
  CHECK(reference::unscale({}, 2.0F, sum, unscaled));
  CHECK(bits(unscaled[1]) == bits(inf32));
  CHECK(reference::unscale({}, 0x1p-126F, unscaled, unscaled));
}

TEST_CASE("unscale: one rounding of the product, not a division") {
  const float inv_scale = 1.0F / 3.0F;
  const std::vector<float> sum = random_values(3000, 8);
  std::vector<float> unscaled(sum.size()), expected, divided;
  for (const float value : sum) {
    const float product = value * inv_scale;
    expected.push_back(product);
    divided.push_back(value / 3.0F);
  }
  REQUIRE(bits(expected) != bits(divided));
  CHECK_FALSE(reference::unscale({}, inv_scale, sum, unscaled));
  CHECK(bits(unscaled) == bits(expected));
}

TEST_CASE("unscale: one value that is not finite is found at any position") {
  for (const std::size_t numel : {1U, 5U, 1024U, 3001U}) {
    for (const float value : {nan32, -nan32, inf32, -inf32}) {
      for (const std::size_t where : {std::size_t{0}, numel / 2, numel - 1}) {
        std::vector<float> sum(numel, 1.0F);
        CHECK_FALSE(reference::unscale({}, 1.0F, sum, sum));
        sum[where] = value;
        CHECK(reference::unscale({}, 1.0F, sum, sum));
      }
    }
  }
  CHECK_FALSE(reference::unscale({}, 1.0F, {}, {}));
  std::vector<float> two(2), three(3);
  ZP_CHECK_INVALID(reference::unscale({}, 1.0F, two, three));
}

TEST_CASE("clip_coef: binding") {
  // s = 5.000001, q = 2.5 / s = 0.5 - 9.99998e-8; fp32 steps by 2^-25 = 2.98e-8 below 1/2, so that
  // is 3.36 steps: 3.
  CHECK(bits(reference::clip_coef(5, 2.5)) == bits(0.5F - 3 * 0x1p-25F));
  // A norm equal to the bound still gives less than 1, because of the 1e-6: 2e-7 is 3.36 steps of
  // 2^-24.
  CHECK(bits(reference::clip_coef(5, 5.0)) == bits(1.0F - 3 * 0x1p-24F));
  CHECK(bits(reference::clip_coef(inf64, 1.0)) == bits(0.0F));
  // In fp32 the norm 2^24 + 1 would be 2^24 and the coefficient 1.
  CHECK(bits(reference::clip_coef(0x1p24 + 1, 0x1p24)) == bits(1.0F - 0x1p-24F));
}

TEST_CASE("clip_coef: not binding, and off") {
  CHECK(reference::clip_coef(5, 10.0) == 1.0F);
  CHECK(reference::clip_coef(0, 1.0) == 1.0F);
  CHECK(reference::clip_coef(0, 1e-6) == 1.0F);  // q is exactly 1
  CHECK(reference::clip_coef(1e30, std::nullopt) == 1.0F);
  CHECK(reference::clip_coef(1e30, 0.0) == 1.0F);
  CHECK(reference::clip_coef(nan64, 0.0) == 1.0F);  // "whatever the norm"
  CHECK(std::isnan(reference::clip_coef(nan64, 1.0)));
}

TEST_CASE("clip_coef: invalid max_norm is rejected") {
  ZP_CHECK_INVALID(reference::clip_coef(1, -1.0));
  ZP_CHECK_INVALID(reference::clip_coef(1, inf64));
  ZP_CHECK_INVALID(reference::clip_coef(1, nan64));
  ZP_CHECK_INVALID(reference::clip_coef(nan64, -1e-300));
}

TEST_CASE("clip: always computes the product") {
  const std::vector<float> unscaled = {3, -0.0F, 0x1p-149F, nan32, -inf32};
  std::vector<float> grad(5);
  reference::clip({}, 0.5F, unscaled, grad);
  CHECK(bits(grad) == bits(std::vector<float>{1.5F, -0.0F, 0.0F, nan32, -inf32}));
  reference::clip({}, 0.0F, unscaled, grad);
  CHECK(bits(grad) == bits(std::vector<float>{0.0F, -0.0F, 0.0F, nan32, nan32}));
  grad = unscaled;
  reference::clip({}, 1.0F, grad, grad);
  CHECK(bits(grad) == bits(unscaled));
  ZP_CHECK_INVALID(reference::clip({}, 1.0F, unscaled, Span<float>(grad).first(4)));
}

TEST_CASE("clip_value: every element, and NaN passes") {
  // 11 elements: a vector body and a tail.
  std::vector<float> grad = {3, -3, 2, -2, 1.5F, 0, -0.0F, nan32, inf32, -inf32, 0x1p-149F};
  reference::clip_value({}, 2, grad);
  CHECK(bits(grad) ==
        bits(std::vector<float>{2, -2, 2, -2, 1.5F, 0, -0.0F, nan32, 2, -2, 0x1p-149F}));

  for (const std::int64_t numel : {0, 1, 7, 1024, 1025}) {
    grad = random_values(numel, 3, 4);
    std::vector<float> expected = grad;
    for (float& x : expected) x = x > 1.25F ? 1.25F : x < -1.25F ? -1.25F : x;
    reference::clip_value({}, 1.25F, grad);
    CHECK(bits(grad) == bits(expected));
  }
  grad.assign(11, nan32);  // in the body and in the tail
  reference::clip_value({}, 2, grad);
  CHECK(bits(grad) == bits(std::vector<float>(11, nan32)));
  grad = {1, -1, 0};
  reference::clip_value({}, 0x1p-149F, grad);
  CHECK(bits(grad) == bits(std::vector<float>{0x1p-149F, -0x1p-149F, 0}));
  for (const float bad : {0.0F, -0.0F, -1.0F, inf32, nan32}) {
    ZP_CHECK_INVALID(reference::clip_value({}, bad, grad));
    ZP_CHECK_INVALID(reference::clip_value({}, bad, {}));
  }
}

}  // namespace grad_scale_clip_test
