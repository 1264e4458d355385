#include "reference/operations.hpp"
#include "tests/reference/support.hpp"

namespace grad_norm_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

NormLimbs limbs_of(Span<const float> grad) {
  NormLimbs limbs;
  reference::grad_norm_accumulate({}, grad, limbs);
  reference::grad_norm_normalise(limbs);
  return limbs;
}

double norm_of(const std::vector<float>& grad) {
  return reference::grad_norm_finish(limbs_of(grad));
}

/// Limbs of a sum of powers of two.
NormLimbs limbs_of_powers(const std::vector<int>& exponents) {
  NormLimbs limbs;
  for (const int exponent : exponents) {
    const int position = exponent + 352;
    limbs.limbs[position / 32] += std::uint64_t{1} << (position % 32);
  }
  return limbs;
}

}  // namespace

TEST_CASE("norm: by hand") {
  CHECK(norm_of({3, 4, 0}) == 5.0);
  CHECK(norm_of({}) == 0.0);
  CHECK(norm_of({-0.0F, 0.0F}) == 0.0);
  CHECK(norm_of(std::vector<float>(4096, 0.5F)) == 32.0);  // sqrt(4096 / 4)
  CHECK(limbs_of(std::vector<float>(5, -0.0F)) == NormLimbs{});

  // 9 * 2^0: q = 352 + 3 - 52 of the 53-bit integer, that is 9 in limb 11, weight 2^0.
  NormLimbs nine;
  nine.limbs[11] = 9;
  CHECK(limbs_of(std::vector<float>{3}) == nine);
}

TEST_CASE("norm: the sum is rounded once, to nearest even") {
  // fp64 steps by 2^49 at 2^101; 2^48 is a tie, and anything below it decides. With the 2^51 three
  // neighbours have three different roots, which is rare: a root halves relative differences.
  const double even = std::sqrt(0x1p101 + 0x1p51);
  const double next = std::sqrt(0x1p101 + 0x1p51 + 0x1p49);
  const double after_next = std::sqrt(0x1p101 + 0x1p51 + 0x1p50);
  REQUIRE(even != next);
  REQUIRE(next != after_next);
  CHECK(reference::grad_norm_finish(limbs_of_powers({101, 51, 48})) == even);
  CHECK(reference::grad_norm_finish(limbs_of_powers({101, 51, 48, -298})) == next);
  CHECK(reference::grad_norm_finish(limbs_of_powers({101, 51, 47, 46})) == even);
  CHECK(reference::grad_norm_finish(limbs_of_powers({101, 51, 49, 48})) ==
        after_next);  // a tie above an odd value

  // The same through the chunks: two squares of 2^50, two of 2^25, one of 2^24, and the smallest
  // subnormal's.
  std::vector<float> grad(3 * 1024);
  grad[5] = grad[900] = 0x1p50F;
  grad[6] = grad[901] = 0x1p25F;
  grad[1024] = 0x1p24F;
  CHECK(norm_of(grad) == even);
  grad[2048] = 0x1p-149F;
  CHECK(norm_of(grad) == next);

  // All 53 bits set and a tie: the carry propagates to the next power of two.
  std::vector<int> ones;
  for (int bit = 0; bit <= 53; ++bit) ones.push_back(100 - bit);
  CHECK(reference::grad_norm_finish(limbs_of_powers(ones)) == std::sqrt(0x1p101));
}

TEST_CASE("norm: the largest and the smallest squares") {
  const float max32 = std::numeric_limits<float>::max();
  CHECK(norm_of({0x1p-149F}) == 0x1p-149);
  CHECK(norm_of({max32}) == static_cast<double>(max32));
  CHECK(norm_of(std::vector<float>(1024, max32)) ==
        32 * static_cast<double>(max32));  // 48-bit squares: exact
  CHECK(norm_of({1e20F, 0}) == static_cast<double>(1e20F));
}

TEST_CASE("norm: NaN and infinity are counted by chunk") {
  std::vector<float> grad(5 * 1024, 1.0F);
  grad[0] = -inf32;
  grad[1] = inf32;
  grad[1024] = inf32;
  NormLimbs limbs = limbs_of(grad);
  CHECK(limbs.inf_count == 2);
  CHECK(limbs.nan_count == 0);
  CHECK(reference::grad_norm_finish(limbs) == inf64);
  grad[2048] = nan32;
  grad[2049] = inf32;  // inf + NaN is NaN
  limbs = limbs_of(grad);
  CHECK(limbs.inf_count == 2);
  CHECK(limbs.nan_count == 1);
  CHECK(std::isnan(reference::grad_norm_finish(limbs)));
  NormLimbs ones;
  reference::grad_norm_accumulate({}, std::vector<float>(2048, 1.0F), ones);
  CHECK(limbs.limbs == ones.limbs);
}

TEST_CASE("norm: normalising keeps the value, and counts accumulate") {
  NormLimbs limbs;
  limbs.limbs[0] = 0xFFFFFFFFFFFFFFFFU;
  limbs.limbs[1] =
      0xFFFFFFFE00000001U;  // 1 + (2^32 - 1) carried from below is 2^32: one more carry
  limbs.limbs[20] = std::uint64_t{1} << 40;
  limbs.nan_count = 3;
  reference::grad_norm_normalise(limbs);
  CHECK(limbs.limbs[0] == 0xFFFFFFFFU);
  CHECK(limbs.limbs[1] == 0);
  CHECK(limbs.limbs[2] == 0xFFFFFFFFU);
  CHECK(limbs.limbs[3] == 0);
  CHECK(limbs.limbs[20] == std::uint64_t{1} << 40);  // the last one is not reduced
  CHECK(limbs.nan_count == 3);

  // A last limb beyond 32 bits still counts: 2^(640 - 352 + 40).
  NormLimbs high;
  high.limbs[20] = std::uint64_t{1} << 40;
  CHECK(reference::grad_norm_finish(high) == 0x1p164);
  // Limbs that are almost full take another deposit.
  NormLimbs full;
  full.limbs[11] = 0xFFFFFFFFFFFFFFFFU;
  reference::grad_norm_accumulate({}, std::vector<float>{1}, full);
  CHECK(reference::grad_norm_finish(full) == 0x1p32);
}

}  // namespace grad_norm_test
