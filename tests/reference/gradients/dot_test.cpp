#include <algorithm>
#include <numeric>

#include "reference/operations.hpp"
#include "tests/reference/gradients/dot_support.hpp"

namespace dot_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

DotLimbs limbs_of(Span<const float> a, Span<const float> b) {
  DotLimbs limbs;
  reference::dot_accumulate({}, a, b, limbs);
  reference::dot_normalise(limbs);
  return limbs;
}

double dot_of(const std::vector<float>& a, const std::vector<float>& b) {
  return reference::dot_finish(limbs_of(a, b));
}

void add_words(NormLimbs& total, const NormLimbs& other) {
  for (std::size_t i = 0; i < total.limbs.size(); ++i) total.limbs[i] += other.limbs[i];
  total.nan_count += other.nan_count;
  total.inf_count += other.inf_count;
}

/// As on ranks: every part separately, integers added, finished once.
double dot_in_parts(const std::vector<float>& a, const std::vector<float>& b,
                    const std::vector<std::size_t>& cuts) {
  DotLimbs total;
  std::size_t begin = 0;
  for (std::size_t cut = 0; cut <= cuts.size(); ++cut) {
    const std::size_t end = cut < cuts.size() ? cuts[cut] : a.size();
    const DotLimbs one = limbs_of(Span<const float>(a).subspan(begin, end - begin),
                                  Span<const float>(b).subspan(begin, end - begin));
    add_words(total.positive, one.positive);
    add_words(total.negative, one.negative);
    begin = end;
  }
  return reference::dot_finish(total);
}

constexpr float tiny32 = 0x1p-149F;
constexpr float max32 = std::numeric_limits<float>::max();

}  // namespace

TEST_CASE("dot: by hand") {
  CHECK(dot_of({1, 2, 3}, {4, -5, 6}) == 12.0);
  CHECK(dot_of({1, 2}, {-4, -5}) == -14.0);
  CHECK(dot_of({0.1F}, {10}) == 10 * static_cast<double>(0.1F));
  CHECK(dot_of({0x1p-75F, 3}, {0x1p-75F, 0x1p100F}) == 0x1.8p101);
}

TEST_CASE("dot: an exact zero is +0, for any signs") {
  CHECK(bits(dot_of({}, {})) == bits(0.0));
  CHECK(bits(dot_of({-0.0F}, {1})) == bits(0.0));
  CHECK(bits(dot_of({-0.0F, 0}, {1, -max32})) == bits(0.0));
  CHECK(bits(dot_of({1, 1}, {3, -3})) == bits(0.0));
  CHECK(bits(dot_of({-1, 1}, {3, 3})) == bits(0.0));
}

TEST_CASE("dot: cancellation keeps the rest exact") {
  CHECK(dot_of({0x1p120F, 1, -0x1p120F}, {0x1p120F, 1, 0x1p120F}) == 1.0);
  CHECK(dot_of({max32, tiny32, -max32}, {max32, tiny32, max32}) == 0x1p-298);
  CHECK(dot_of({max32, -tiny32, -max32}, {max32, tiny32, max32}) == -0x1p-298);
  CHECK(dot_of({0x1p64F, -1}, {0x1p64F, tiny32}) == 0x1p128);  // a borrow through nine limbs
}

TEST_CASE("dot: rounded once, ties to even, of either sign") {
  const float big = 0x1p53F;
  CHECK(dot_of({big, 1}, {1, 1}) == 0x1p53);
  CHECK(dot_of({big, 3}, {1, 1}) == 0x1p53 + 4);
  CHECK(dot_of({big, 1, 0x1p-149F}, {1, 1, 0x1p-149F}) == 0x1p53 + 2);
  CHECK(dot_of({2 * big, -1}, {1, 1}) == 0x1p54);
  CHECK(dot_of({2 * big, -1, -0x1p-149F}, {1, 1, 0x1p-149F}) == 0x1p54 - 2);
  CHECK(dot_of({-big, -1}, {1, 1}) == -0x1p53);
  CHECK(dot_of({-big, -1, -0x1p-149F}, {1, 1, 0x1p-149F}) == -0x1p53 - 2);
}

TEST_CASE("dot: products of every size, subnormal factors included") {
  for (int i = -149; i < 128; i += 3) {
    for (int k = -149; k < 128; k += 2) {
      const float a = 0x1.8p0F * std::ldexp(1.0F, i);
      const float b = std::ldexp(1.0F, k);
      REQUIRE(dot_of({a}, {-b}) == -static_cast<double>(a) * static_cast<double>(b));
    }
  }
  CHECK(dot_of({tiny32}, {tiny32}) == 0x1p-298);
  CHECK(dot_of({max32}, {max32}) == static_cast<double>(max32) * static_cast<double>(max32));
}

TEST_CASE("dot: the largest products, a million of them") {
  const std::vector<float> many(1 << 20, max32);
  const double one = static_cast<double>(max32) * static_cast<double>(max32);
  CHECK(dot_of(many, many) == std::ldexp(one, 20));  // far above the sum of a chunk of squares
}

TEST_CASE("dot: infinities and NaNs") {
  CHECK(dot_of({inf32, 1}, {1, 1}) == inf64);
  CHECK(dot_of({inf32, -max32}, {1, max32}) == inf64);
  CHECK(dot_of({-inf32, 1}, {1, 1}) == -inf64);
  CHECK(dot_of({-inf32}, {-inf32}) == inf64);
  CHECK(std::isnan(dot_of({inf32, inf32}, {1, -1})));
  CHECK(std::isnan(dot_of({inf32}, {0})));
  CHECK(std::isnan(dot_of({-0.0F}, {inf32})));
  CHECK(std::isnan(dot_of({nan32, inf32}, {0, 1})));
  CHECK(std::isnan(dot_of({inf32, 1}, {1, nan32})));

  // The infinities meet only when the integers are added.
  CHECK(std::isnan(dot_in_parts({inf32, 2, -inf32}, {1, 1, 1}, {1, 2})));
  CHECK(dot_in_parts({2, -inf32, 2}, {1, 1, 1}, {1, 1, 2}) == -inf64);
}

TEST_CASE("dot: products go to the limb of their weight and sign") {
  const DotLimbs limbs = limbs_of(std::vector<float>{nan32, inf32, inf32, -inf32, 1, -2},
                                  std::vector<float>{1, 1, 2, 1, 1, 1});
  CHECK(limbs.positive.nan_count == 1);
  CHECK(limbs.negative.nan_count == 0);
  CHECK(limbs.positive.inf_count == 2);
  CHECK(limbs.negative.inf_count == 1);
  CHECK(limbs.positive.limbs[11] == 1);  // 2^0 = 2^(32 * 11 - 352)
  CHECK(limbs.negative.limbs[11] == 2);
}

TEST_CASE("dot: random values in any order and any parts, against bitwise counting") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const std::int64_t numel = static_cast<std::int64_t>(37 * seed + seed % 3);
    const int spread = seed % 4 == 0 ? 100 : static_cast<int>(3 + seed);
    std::vector<float> a = random_values(numel, 2 * seed, spread);
    std::vector<float> b = random_values(numel, 2 * seed + 1, spread);
    if (seed % 5 == 0 && numel > 0) b.back() = -0.0F;
    const double expected = exact_dot(a, b);
    REQUIRE(bits(dot_of(a, b)) == bits(expected));
    REQUIRE(bits(dot_of(b, a)) == bits(expected));

    const std::size_t n = a.size();
    REQUIRE(bits(dot_in_parts(a, b, {0, n / 7, n / 7, n / 2, n})) == bits(expected));
    std::vector<std::size_t> cuts(n);
    std::iota(cuts.begin(), cuts.end(), std::size_t{0});
    REQUIRE(bits(dot_in_parts(a, b, cuts)) == bits(expected));  // one element per rank

    std::ranges::reverse(a);
    std::ranges::reverse(b);
    REQUIRE(bits(dot_of(a, b)) == bits(expected));
  }
}

TEST_CASE("dot: a sum that cancels to its last bits, against bitwise counting") {
  std::vector<float> a = random_values(500, 7, 60);
  std::vector<float> b = random_values(500, 8, 60);
  for (std::size_t i = 0; i < 250; ++i) {  // everything above the last five products cancels
    a[i + 250] = -a[i];
    b[i + 250] = b[i];
  }
  for (std::size_t i = 495; i < 500; ++i) b[i] = std::nextafter(b[i], 0.0F);
  CHECK(bits(dot_of(a, b)) == bits(exact_dot(a, b)));
  CHECK(dot_of(a, b) != 0);
}

TEST_CASE("dot: limbs with carries give the same result") {
  DotLimbs limbs;
  limbs.positive.limbs[11] = 0xFFFFFFFFFFFFFFFFU;  // 2^64 - 1
  limbs.positive.limbs[12] = 1;                    // 2^32
  limbs.negative.limbs[11] = 0xFFFFFFFF00000000U;  // 2^64 - 2^32
  CHECK(reference::dot_finish(limbs) == 0x1p33 - 1);
  DotLimbs full = limbs;
  reference::dot_accumulate({}, std::vector<float>{1}, std::vector<float>{1},
                            full);  // normalises first
  CHECK(reference::dot_finish(full) == 0x1p33);
  std::swap(limbs.positive, limbs.negative);
  CHECK(reference::dot_finish(limbs) == -(0x1p33 - 1));
  reference::dot_normalise(limbs);
  CHECK(limbs.positive.limbs[11] == 0);
  CHECK(limbs.positive.limbs[12] == 0xFFFFFFFFU);
  CHECK(limbs.negative.limbs[11] == 0xFFFFFFFFU);
  CHECK(limbs.negative.limbs[13] == 1);
}

TEST_CASE("dot: views of different lengths are rejected") {
  DotLimbs limbs;
  ZP_CHECK_INVALID(
      reference::dot_accumulate({}, std::vector<float>(3), std::vector<float>(2), limbs));
}

}  // namespace dot_test
