#include <algorithm>
#include <numeric>

#include "reference/operations.hpp"
#include "tests/reference/support.hpp"

namespace grad_norm_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

__extension__ using uint128 = unsigned __int128;

NormLimbs limbs_of(Span<const float> grad) {
  NormLimbs limbs;
  reference::grad_norm_accumulate({}, grad, limbs);
  reference::grad_norm_normalise(limbs);
  return limbs;
}

double norm_of(const std::vector<float>& grad) {
  return reference::grad_norm_finish(limbs_of(grad));
}

/// R12 by indices: missing elements count +0.
double chunk_value(Span<const float> chunk) {
  const auto g1 = [&](std::size_t i) { return i < chunk.size() ? chunk[i] : 0.0F; };
  double a[32];
  for (std::size_t lane = 0; lane < 32; ++lane) {
    a[lane] = 0;
    for (std::size_t s = 0; s < 32; ++s) {
      const volatile double square =
          static_cast<double>(g1(32 * s + lane)) * static_cast<double>(g1(32 * s + lane));
      a[lane] = a[lane] + square;
    }
  }
  for (const std::size_t w : {16, 8, 4, 2, 1}) {
    for (std::size_t lane = 0; lane < w; ++lane) a[lane] = a[lane] + a[lane + w];
  }
  return a[0];
}

/// N from chunk values between 2^-22 and 2^40: they are integers in units of 2^-75, and their sum
/// fits into 128 bits.
double exact_norm(const std::vector<float>& grad) {
  uint128 sum = 0;
  for (std::size_t begin = 0; begin < grad.size(); begin += 1024) {
    const double value = chunk_value(
        Span<const float>(grad).subspan(begin, std::min<std::size_t>(1024, grad.size() - begin)));
    REQUIRE(value >= 0x1p-22);
    REQUIRE(value < 0x1p40);
    int exponent = 0;
    const double fraction = std::frexp(value, &exponent);
    sum += static_cast<uint128>(static_cast<std::uint64_t>(std::ldexp(fraction, 53)))
           << (exponent - 53 + 75);
  }
  return std::sqrt(
      std::ldexp(static_cast<double>(sum), -75));  // this conversion rounds once, ties to even
}

void add_words(NormLimbs& total, const NormLimbs& other) {
  for (std::size_t i = 0; i < total.limbs.size(); ++i) total.limbs[i] += other.limbs[i];
  total.nan_count += other.nan_count;
  total.inf_count += other.inf_count;
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

TEST_CASE("norm: against exact integer arithmetic") {
  for (const std::int64_t numel : {1, 31, 32, 33, 1023, 1024, 1025, 2048, 5000, 40000}) {
    const std::vector<float> grad = random_values(numel, static_cast<std::uint64_t>(numel), 10);
    CHECK(bits(norm_of(grad)) == bits(exact_norm(grad)));
  }
}

TEST_CASE("norm: chunk sums are in the order of the lanes") {
  // Bits of one chunk value are bits of its limbs; another order of the additions changes the last
  // ones.
  bool order_matters = false;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<float> grad = random_values(1000, seed, 10);
    NormLimbs limbs = limbs_of(grad);
    const double value = chunk_value(grad);
    double from_limbs = 0;  // exact: one chunk value has 53 bits
    for (std::size_t i = 0; i < limbs.limbs.size(); ++i) {
      from_limbs += std::ldexp(static_cast<double>(limbs.limbs[i]), 32 * static_cast<int>(i) - 352);
    }
    CHECK(bits(from_limbs) == bits(value));
    double in_a_row = 0;
    for (const float x : grad) in_a_row += static_cast<double>(x) * static_cast<double>(x);
    order_matters = order_matters || in_a_row != value;
  }
  CHECK(order_matters);
}

TEST_CASE("norm: any sharding and any order of chunks give the same bits") {
  const std::int64_t num_chunks = 37;
  std::vector<float> grad =
      random_values(num_chunks * 1024 - 100, 5, 60);  // squares from 2^-120 to 2^120
  for (std::size_t i = 0; i < 1024; ++i) grad[7 * 1024 + i] = std::ldexp(grad[7 * 1024 + i], -75);
  const NormLimbs expected = limbs_of(grad);
  const Philox philox(9);
  for (std::uint64_t trial = 0; trial < 40; ++trial) {
    std::vector<std::int64_t> order(num_chunks);
    std::iota(order.begin(), order.end(), 0);
    for (std::uint64_t i = order.size() - 1; i > 0; --i) {
      std::swap(order[i], order[philox.below(trial << 20 | i, i + 1)]);
    }
    const std::uint64_t world_size = 1 + trial % 9;
    std::vector<NormLimbs> ranks(world_size);
    for (std::uint64_t i = 0; i < order.size(); ++i) {
      const std::size_t begin = static_cast<std::size_t>(order[i]) * 1024;
      const Span<const float> chunk =
          Span<const float>(grad).subspan(begin, std::min<std::size_t>(1024, grad.size() - begin));
      reference::grad_norm_accumulate({}, chunk,
                                      ranks[philox.below(trial << 20 | 1 << 10 | i, world_size)]);
    }
    NormLimbs total;
    for (NormLimbs& limbs : ranks) {
      reference::grad_norm_normalise(limbs);
      add_words(total, limbs);
    }
    CHECK(bits(reference::grad_norm_finish(total)) == bits(reference::grad_norm_finish(expected)));
    reference::grad_norm_normalise(total);
    CHECK(total == expected);
  }
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
