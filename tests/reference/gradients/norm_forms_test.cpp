// The norm forms besides chunk1024: exact, one, inf and any other p.

#include <algorithm>

#include "reference/operations.hpp"
#include "tests/reference/support.hpp"

namespace norm_forms_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

double exact_norm(Span<const float> grad) {
  NormLimbs limbs;
  reference::grad_norm_exact_accumulate({}, grad, limbs);
  return reference::grad_norm_finish(limbs);
}

double abs_norm(Span<const float> grad) {
  NormLimbs limbs;
  reference::grad_abs_accumulate({}, grad, limbs);
  return reference::grad_abs_finish(limbs);
}

double max_norm(Span<const float> grad) {
  std::uint32_t amax = 0;
  reference::grad_max_accumulate({}, grad, amax);
  return reference::grad_max_finish(amax);
}

double p_norm(Span<const float> grad, double p) { return reference::grad_norm_p({}, grad, p); }

constexpr double unit = 0x1p-53;  // one rounding

/// Relative error that the contract allows for a p-norm, derived in papers/summation.md [Norm:p].
double p_norm_bound(double numel, double p) { return 1.01 * ((numel + 50) / p + 8) * unit; }

/// Whether a p-norm is within its bound. `norm` is the true value rounded at most once, and so is
/// the quotient; the quotient minus 1 is exact [Sterbenz].
bool near(double computed, double norm, double numel, double p) {
  return std::fabs(computed / norm - 1) <= p_norm_bound(numel, p) + 2 * unit;
}

/// Every form over every span of three elements, by hand.
const std::vector<float> by_hand = {3, -4, 12};

}  // namespace

TEST_CASE("norm forms: by hand") {
  CHECK(exact_norm(by_hand) == 13);
  CHECK(abs_norm(by_hand) == 19);
  CHECK(max_norm(by_hand) == 12);
  CHECK(p_norm(by_hand, 1) == 19);
  CHECK(near(p_norm(by_hand, 2), 13, 3, 2));
  CHECK(near(p_norm(std::vector<float>{3, 4, -5}, 3), 6, 3, 3));      // 27 + 64 + 125 = 216
  CHECK(near(p_norm(std::vector<float>{1, 4, 9}, 0.5), 36, 3, 0.5));  // (1 + 2 + 3)^2
  CHECK(bits(exact_norm({})) == bits(0.0));
  CHECK(bits(abs_norm({})) == bits(0.0));
  CHECK(bits(max_norm({})) == bits(0.0));
  CHECK(bits(p_norm({}, 3)) == bits(0.0));
}

TEST_CASE("norm forms: the limbs by hand") {
  // 3^2 = 9 units of 2^0; 2^0 is bit 352, the lowest bit of limb 11. |-3| + |0.5| = 3 + 2^-1.
  NormLimbs squares;
  reference::grad_norm_exact_accumulate({}, std::vector<float>{-3, 0, -0.0F}, squares);
  NormLimbs expected;
  expected.limbs[11] = 9;
  CHECK(squares == expected);
  NormLimbs magnitudes;
  reference::grad_abs_accumulate({}, std::vector<float>{-3, 0.5F}, magnitudes);
  reference::grad_norm_normalise(magnitudes);
  expected = {};
  expected.limbs[11] = 3;
  expected.limbs[10] = 0x80000000U;
  CHECK(magnitudes == expected);
}

TEST_CASE("norm form exact: one rounding of the whole sum, independent of lanes") {
  // Inside one chunk fp64 would lose the small square: 2^100 + 2^-298.
  std::vector<float> grad(600);
  grad[0] = 0x1p50F;
  grad[32] = 0x1p-149F;
  NormLimbs limbs;
  reference::grad_norm_exact_accumulate({}, grad, limbs);
  NormLimbs chunks;
  reference::grad_norm_accumulate({}, grad, chunks);
  reference::grad_norm_normalise(limbs);
  reference::grad_norm_normalise(chunks);
  CHECK_FALSE(limbs == chunks);
  CHECK(limbs.limbs[1] == std::uint64_t{1} << (352 - 298 - 32));

  // A tie above an even value, and the small square decides; three roots as in grad_norm_test.cpp.
  const double even = std::sqrt(0x1p101 + 0x1p51);
  const double next = std::sqrt(0x1p101 + 0x1p51 + 0x1p49);
  grad.assign(40, 0);
  grad[0] = grad[1] = 0x1p50F;
  grad[2] = grad[3] = 0x1p25F;
  grad[34] = 0x1p24F;
  CHECK(exact_norm(grad) == even);
  grad[5] = 0x1p-149F;
  CHECK(exact_norm(grad) == next);
}

TEST_CASE("norm form one: one rounding of the whole sum") {
  // fp64 steps by 2 at 2^53: 2^53 + 1 is a tie to even, and the smallest subnormal decides it.
  std::vector<float> grad = {0x1p53F, -1};
  CHECK(abs_norm(grad) == 0x1p53);
  grad.push_back(0x1p-149F);
  CHECK(abs_norm(grad) == 0x1p53 + 2);
  const float max32 = std::numeric_limits<float>::max();
  CHECK(abs_norm(std::vector<float>{max32, -max32}) == 2 * double{max32});
  CHECK(abs_norm(std::vector<float>{-0x1p-149F}) == 0x1p-149);
}

TEST_CASE("norm forms exact and one: any parts in any order on any number of ranks") {
  const std::vector<float> grad = random_values(5000, 5, 60);
  const auto limbs_of = [](auto accumulate, Span<const float> piece, NormLimbs limbs) {
    accumulate(Exec{}, piece, limbs);
    return limbs;
  };
  for (const auto accumulate :
       {&reference::grad_norm_exact_accumulate, &reference::grad_abs_accumulate}) {
    NormLimbs whole = limbs_of(accumulate, grad, {});
    reference::grad_norm_normalise(whole);
    for (const std::size_t cut : {1, 7, 1000, 1024, 1025, 4999}) {
      NormLimbs parts = limbs_of(accumulate, Span<const float>(grad).subspan(cut), {});
      parts = limbs_of(accumulate, Span<const float>(grad).first(cut), parts);
      reference::grad_norm_normalise(parts);
      CHECK(parts == whole);
    }
  }
  // Limbs that are almost full take another deposit.
  NormLimbs full;
  full.limbs[11] = 0xFFFFFFFFFFFFFFFFU;
  reference::grad_abs_accumulate({}, std::vector<float>{1}, full);
  CHECK(reference::grad_abs_finish(full) == 0x1p64);
}

TEST_CASE("norm forms: NaN and infinities") {
  const std::vector<float> infinite = {1, inf32, -inf32, 2};
  const std::vector<float> mixed = {1, inf32, nan32, -nan32};
  for (const auto accumulate :
       {&reference::grad_norm_exact_accumulate, &reference::grad_abs_accumulate}) {
    NormLimbs limbs;
    accumulate({}, infinite, limbs);
    CHECK(limbs.inf_count == 2);  // per element, not per chunk
    CHECK(limbs.nan_count == 0);
    CHECK(reference::grad_norm_finish(limbs) == inf64);
    CHECK(reference::grad_abs_finish(limbs) == inf64);
    accumulate({}, mixed, limbs);
    CHECK(limbs.inf_count == 3);
    CHECK(limbs.nan_count == 2);
    CHECK(std::isnan(reference::grad_norm_finish(limbs)));
    CHECK(std::isnan(reference::grad_abs_finish(limbs)));
  }
  CHECK(max_norm(infinite) == inf64);
  CHECK(std::isnan(max_norm(mixed)));
  CHECK(p_norm(infinite, 3) == inf64);
  CHECK(std::isnan(p_norm(mixed, 3)));
}

TEST_CASE("norm form inf: integer maximum") {
  std::uint32_t amax = 0;
  reference::grad_max_accumulate({}, std::vector<float>{-0.0F, 0x1p-149F}, amax);
  CHECK(amax == 1);
  reference::grad_max_accumulate({}, std::vector<float>{-5, 4}, amax);
  CHECK(amax == std::bit_cast<std::uint32_t>(5.0F));
  reference::grad_max_accumulate({}, std::vector<float>{3}, amax);  // smaller: stays
  CHECK(amax == std::bit_cast<std::uint32_t>(5.0F));
  reference::grad_max_accumulate({}, std::vector<float>{inf32}, amax);
  CHECK(amax == 0x7F800000U);
  // The smallest NaN payload counts as the largest, with either sign.
  reference::grad_max_accumulate({}, std::vector<float>{std::bit_cast<float>(0xFF800001U)}, amax);
  CHECK(amax == 0x7FFFFFFFU);

  CHECK(bits(reference::grad_max_finish(0)) == bits(0.0));
  CHECK(reference::grad_max_finish(1) == 0x1p-149);
  CHECK(reference::grad_max_finish(0x7F7FFFFFU) == double{std::numeric_limits<float>::max()});
  CHECK(reference::grad_max_finish(0x7F800000U) == inf64);
  for (const std::uint32_t above : {0x7F800001U, 0x7FFFFFFFU, 0x80000000U, 0xFFFFFFFFU}) {
    CHECK(std::isnan(reference::grad_max_finish(above)));
  }
  // One large element is found at any position.
  for (const std::int64_t numel : {1, 7, 1024, 1025}) {
    for (std::int64_t at = 0; at < numel; at += 13) {
      std::vector<float> grad(numel, 0.5F);
      grad[at] = -7;
      CHECK(max_norm(grad) == 7);
    }
  }
}

TEST_CASE("norm forms: forms with equal values agree") {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    // Ten bits around 1: every sum of squares is exact in fp64, so the lanes lose nothing.
    std::vector<float> grad;
    for (const float x : random_values(3000, seed, 3))
      grad.push_back(std::ldexp(std::round(x * 128), -7));
    NormLimbs chunks;
    reference::grad_norm_accumulate({}, grad, chunks);
    CHECK(bits(reference::grad_norm_finish(chunks)) == bits(exact_norm(grad)));
    CHECK(near(p_norm(grad, 2), exact_norm(grad), 3000, 2));
    CHECK(near(p_norm(grad, 1), abs_norm(grad), 3000, 1));
    // max <= N_p <= max n^(1/p). This computation adds a rounding for the factor in brackets and
    // one for each product, and on the right side 6 for the power (3 ulps of 2 units each).
    const double bound = p_norm_bound(3000, 1e4);
    CHECK(p_norm(grad, 1e4) >= max_norm(grad) * (1 - (bound + 2 * unit)));
    CHECK(p_norm(grad, 1e4) <= max_norm(grad) * std::pow(3000, 1e-4) * (1 + (bound + 9 * unit)));
  }
}

TEST_CASE("norm of any p: no power overflows, zeros, and invalid p is rejected") {
  const float max32 = std::numeric_limits<float>::max();
  CHECK(near(p_norm(std::vector<float>(8, max32), 3), 2 * double{max32}, 8, 3));
  CHECK(near(p_norm(std::vector<float>(8, 0x1p-149F), 3), 0x1p-148, 8, 3));
  CHECK(p_norm(std::vector<float>{-7}, 1e300) == 7);
  CHECK(p_norm(std::vector<float>{1, 0, -0.0F}, 2.5) == 1);
  CHECK(bits(p_norm(std::vector<float>{-0.0F, 0}, 2.5)) == bits(0.0));
  for (const double bad : {0.0, -1.0, inf64, nan64}) {
    ZP_CHECK_INVALID(p_norm(by_hand, bad));
    ZP_CHECK_INVALID(p_norm({}, bad));
  }
}

}  // namespace norm_forms_test
