// Sums in bins (R11, binned): by hand, and against the definition in whole integers.

#include <algorithm>
#include <array>

#include "reference/operations.hpp"
#include "tests/reference/support.hpp"

namespace binned_sum_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

__extension__ using Int128 = __int128;

/// One element's sum, or that of several elements.
struct Sum {
  explicit Sum(std::size_t numel = 1) : hi(numel), lo(numel), top(numel) {}
  explicit Sum(const std::vector<float>& leaves) : Sum() {
    for (const float leaf : leaves) add(leaf);
  }
  BinnedSum view() { return {hi, lo, top}; }
  void add(float leaf) { reference::binned_deposit({}, Span<const float>(&leaf, 1), view()); }
  void add(Sum other) { reference::binned_merge({}, other.view(), view()); }
  float value() {
    float result = nan32;
    reference::binned_finish({}, view(), {&result, 1});
    return result;
  }
  bool operator==(const Sum&) const = default;

  std::vector<std::int32_t> hi, lo;
  std::vector<std::uint8_t> top;
};

Sum sum_of(const std::vector<float>& leaves) { return Sum(leaves); }

Sum fields(int top, std::int32_t hi, std::int32_t lo) {
  Sum sum;
  sum.top[0] = static_cast<std::uint8_t>(top);
  sum.hi[0] = hi;
  sum.lo[0] = lo;
  return sum;
}

/// |x| in units of 2^-149 is n * 2^s.
struct Units {
  explicit Units(float x) {
    int exponent = 0;
    const float fraction = std::frexp(std::fabs(x), &exponent);  // in [1/2, 1)
    s = std::max(exponent - 24 + 149, 0);
    n = static_cast<std::int64_t>(std::ldexp(fraction, exponent + 149 - s));
    sign = x < 0 ? -1 : 1;
  }
  std::int64_t n;
  int s;
  int sign;
};

/// value * 2^exponent, rounded once to nearest even; bit by bit, exponent >= -149.
float rounded(Int128 value, int exponent) {
  const bool negative = value < 0;
  Int128 magnitude = negative ? -value : value;
  while (magnitude >= Int128{1} << 24) {
    int dropped = 0;
    Int128 rest = magnitude;
    while (rest >= Int128{1} << 24) {
      rest >>= 1;
      ++dropped;
    }
    const Int128 below = magnitude - (rest << dropped);
    const Int128 half = Int128{1} << (dropped - 1);
    if (below > half || (below == half && rest % 2 == 1)) rest += 1;
    magnitude = rest;
    exponent += dropped;
  }
  const float result =
      std::ldexp(static_cast<float>(static_cast<std::int64_t>(magnitude)), exponent);
  return negative ? -result : result;
}

/// The definition without an order: bins from the largest term, and the bits of every term in the
/// upper two.
float oracle(const std::vector<float>& leaves) {
  int top = 0;
  for (const float leaf : leaves) {
    if (leaf != 0) top = std::max(top, (Units(leaf).s + 23) / 24);
  }
  const int lowest = 24 * std::max(top - 1, 0);
  Int128 sum = 0;
  for (const float leaf : leaves) {
    if (leaf == 0) continue;
    const Units x(leaf);
    const Int128 kept =
        x.s >= lowest ? Int128{x.n} << (x.s - lowest) : Int128{x.n >> std::min(lowest - x.s, 63)};
    sum += x.sign * kept;
  }
  return sum == 0 ? 0.0F : rounded(sum, lowest - 149);
}

std::vector<float> leaves_of(std::uint64_t seed, std::size_t count, int spread) {
  return random_values(static_cast<std::int64_t>(count), seed, spread);
}

}  // namespace

TEST_CASE("binned: by hand") {
  // 1 = 2^23 * 2^(126 - 149): bin 6 = ceil(126 / 24), shifted by 126 mod 24 = 6, so h = 2^(23 + 6 -
  // 24) = 32.
  CHECK(sum_of({1}) == fields(6, 32, 0));
  CHECK(sum_of({-1}) == fields(6, -32, 0));
  // 2^-24 has s = 102: bin 5, h = 32. Half a unit in the last place of 1, and a tie.
  CHECK(sum_of({1, 0x1p-24F}) == fields(6, 32, 32));
  CHECK(sum_of({0x1p-24F, 1}) == fields(6, 32, 32));
  CHECK(sum_of({1, 0x1p-24F}).value() == 1);
  CHECK(sum_of({1, 0x1p-24F, 0x1p-24F}).value() ==
        1 + 0x1p-23F);                                          // sequential fp32 additions give 1
  CHECK(sum_of({0x1p-24F, 1, 0x1p-48F}) == fields(6, 32, 32));  // bin 4 is below the two kept bins
  CHECK(sum_of({0x1p-48F, 1}) == fields(6, 32, 0));             // also when it comes first
  CHECK(sum_of({0x1p-48F, 0x1p-24F, 1}) == fields(6, 32, 32));  // or in increasing order
  // 1 + 2^-23 = (2^23 + 1) * 2^-23: shifted by 6 it is 2^29 + 64.
  CHECK(sum_of({1 + 0x1p-23F}) == fields(6, 32, 64));
  CHECK(sum_of({-1 - 0x1p-23F}) == fields(6, -32, -64));
}

TEST_CASE("binned: the sum is rounded once, from all its 56 bits") {
  // 2^54 + 2^30 is midway between two fp32 values; one more unit decides, and would be lost in
  // fp64.
  CHECK(fields(1, (1 << 30) + 64, 0).value() == 0x1p-95F);
  CHECK(fields(1, (1 << 30) + 64, 1).value() == 0x1.000002p-95F);
  CHECK(fields(1, (1 << 30) + 64, -1).value() == 0x1p-95F);
  CHECK(fields(1, -(1 << 30) - 64, -1).value() == -0x1.000002p-95F);
}

TEST_CASE("binned: zeros, subnormals and cancellation") {
  CHECK(sum_of({0.0F, -0.0F}) == fields(0, 0, 0));
  CHECK(bits(sum_of({-0.0F, -0.0F}).value()) == bits(0.0F));
  CHECK(sum_of({0x1p-149F}) == fields(0, 1, 0));
  CHECK(bits(sum_of({-0x1p-149F}).value()) == bits(-0x1p-149F));
  CHECK(sum_of({0x1p-126F}) ==
        fields(0, 1 << 23, 0));  // the smallest normal number has s = 0 as well
  CHECK(sum_of({0x1p-126F, -0x1p-149F}).value() == 0x1p-126F - 0x1p-149F);
  CHECK(sum_of({0x1p-125F}) == fields(1, 1, 0));  // 2^23 * 2: one unit of bin 1
  CHECK(bits(sum_of({3, -3}).value()) == bits(0.0F));
  CHECK(sum_of({3, -3}).top[0] == 6);
  CHECK(sum_of({0x1p100F, 1, -0x1p100F}).value() ==
        0);  // 1 is below the bins of 2^100, in any order
  CHECK(sum_of({1, 0x1p100F, -0x1p100F}).value() == 0);
  CHECK(sum_of({0x1p20F, 0x1p-4F, -0x1p20F}).value() == 0x1p-4F);  // here it is not
}

TEST_CASE("binned: values that are not finite stay") {
  for (const float bad : {inf32, -inf32, nan32}) {
    CHECK(std::isnan(sum_of({bad}).value()));
    CHECK(std::isnan(sum_of({bad, 1, -1}).value()));
    CHECK(std::isnan(sum_of({3, bad, 0x1p127F}).value()));
    CHECK(sum_of({3, bad, 0x1p127F}).top[0] == 255);
    Sum into = sum_of({2});
    into.add(sum_of({bad}));
    CHECK(std::isnan(into.value()));
    into.add(sum_of({1}));
    CHECK(std::isnan(into.value()));
    Sum other = sum_of({bad});
    other.add(sum_of({2}));
    CHECK(std::isnan(other.value()));
  }
  // Infinities of both signs; only too large sums give others.
  CHECK(std::isnan(sum_of({inf32, -inf32}).value()));
  const float largest = std::numeric_limits<float>::max();
  CHECK(sum_of({largest, largest}).value() == inf32);
  CHECK(sum_of({-largest, -largest}).value() == -inf32);
  CHECK(sum_of({largest, largest, -largest}).value() == largest);  // no partial sum overflows
}

TEST_CASE("binned: every exponent, both ends of its significands") {
  for (int e = 0; e <= 254; ++e) {
    for (const std::uint32_t fraction : {0U, 1U, 0x400000U, 0x7FFFFFU}) {
      for (const std::uint32_t sign : {0U, 1U}) {
        if (e == 0 && fraction == 0) continue;
        const float x =
            std::bit_cast<float>(sign << 31 | static_cast<std::uint32_t>(e) << 23 | fraction);
        Sum sum = sum_of({x});
        CAPTURE(x);
        CHECK(bits(sum.value()) == bits(x));
        CHECK(sum.top[0] == (std::max(e, 1) - 1 + 23) / 24);
        CHECK(std::abs(std::int64_t{sum.hi[0]}) < 1 << 24);
        CHECK(std::abs(std::int64_t{sum.lo[0]}) <= 1 << 24);
        CHECK(bits(sum_of({x, x}).value()) == bits(x + x));
        CHECK(bits(sum_of({x, -x}).value()) == bits(0.0F));
      }
    }
  }
}

TEST_CASE("binned: 128 terms do not overflow the bins") {
  for (int e = 1; e <= 254; ++e) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(e) << 23 | 0x7FFFFFU);
    for (const float leaf : {x, -x}) {
      const std::vector<float> leaves(128, leaf);
      CAPTURE(e);
      CHECK(bits(Sum(leaves).value()) == bits(128 * leaf));
    }
  }
}

TEST_CASE("binned: random terms against the definition in whole integers") {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    const int spread = std::array<int, 6>{1, 8, 20, 30, 60, 120}[seed % 6];
    std::vector<float> leaves = leaves_of(seed, 1 + seed % 128, spread);
    if (seed % 3 == 0) {  // scale them down to subnormals
      for (float& leaf : leaves) leaf = std::ldexp(leaf, -130);
    }
    if (seed % 5 == 0) {  // almost everything cancels
      const std::vector<float> before = leaves;
      for (std::size_t i = 0; i + 1 < before.size() / 2; ++i)
        leaves[leaves.size() - 1 - i] = -before[i];
    }
    CAPTURE(seed);
    CHECK(bits(Sum(leaves).value()) == bits(oracle(leaves)));
  }
}

TEST_CASE("binned: any order and any grouping gives the same integers") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const std::vector<float> leaves = leaves_of(900 + seed, 5 + seed, seed % 2 == 0 ? 10 : 60);
    const Sum expected(leaves);
    const Philox philox(seed);
    std::vector<float> shuffled = leaves;
    for (std::size_t i = shuffled.size(); i > 1; --i)
      std::swap(shuffled[i - 1], shuffled[philox.below(i, i)]);
    CAPTURE(seed);
    CHECK(Sum(shuffled) == expected);

    std::vector<Sum> groups(1 + seed % 7);
    for (std::size_t i = 0; i < shuffled.size(); ++i)
      groups[philox.below(100 + i, groups.size())].add(shuffled[i]);
    Sum left;
    for (const Sum& group : groups) left.add(group);
    CHECK(left == expected);
    while (groups.size() > 1) {  // from the other end, as a chain
      groups[groups.size() - 2].add(groups.back());
      groups.pop_back();
    }
    CHECK(groups[0] == expected);
  }
}

TEST_CASE("binned: the error of the sum is within its bound") {
  // Exponents so close that everything fits into 128 bits, in units of 2^-149 * 2^90.
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const std::vector<float> leaves = leaves_of(5000 + seed, 1 + seed % 128, 25);
    const auto units = [](float x) { return static_cast<Int128>(std::ldexp(double{x}, 48)); };
    Int128 sum = 0;
    Int128 largest = 0;
    for (const float leaf : leaves) {
      sum += units(leaf);
      largest = std::max(largest, units(std::fabs(leaf)));
    }
    const Int128 error = units(Sum(leaves).value()) - sum;
    const Int128 distance = error < 0 ? -error : error;
    const Int128 magnitude = sum < 0 ? -sum : sum;
    CAPTURE(seed);
    CHECK((distance << 24) <= static_cast<Int128>(leaves.size()) * largest + magnitude);
  }
}

TEST_CASE("binned: elements are independent, different lengths are rejected") {
  const std::vector<float> leaf = {1, -0x1p-30F, nan32, 0, 0x1p90F};
  Sum sum(leaf.size());
  reference::binned_deposit({}, leaf, sum.view());
  Sum other(leaf.size());
  reference::binned_merge({}, sum.view(), other.view());
  CHECK(other == sum);
  std::vector<float> values(leaf.size());
  reference::binned_finish({}, other.view(), values);
  CHECK(bits(values) == bits(leaf));

  Sum shorter(4);
  ZP_CHECK_INVALID(reference::binned_deposit({}, leaf, shorter.view()));
  ZP_CHECK_INVALID(reference::binned_merge({}, shorter.view(), sum.view()));
  ZP_CHECK_INVALID(reference::binned_finish({}, shorter.view(), values));
  shorter.hi.push_back(0);
  ZP_CHECK_INVALID(reference::binned_merge({}, shorter.view(), sum.view()));
  shorter.lo.push_back(0);
  ZP_CHECK_INVALID(reference::binned_merge({}, sum.view(), shorter.view()));
}

}  // namespace binned_sum_test
