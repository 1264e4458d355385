#include "common/base/philox.hpp"

#include <doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

namespace philox_test {

using namespace zeroproof;

namespace {

constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();

struct Moments {
  double mean = 0;
  double variance = 0;
  double fourth = 0;       ///< E[(x - mean)^4] / variance^2
  double correlation = 0;  ///< between neighbours
};

Moments moments(const std::vector<double>& x) {
  const double n = static_cast<double>(x.size());
  Moments m;
  for (const double value : x) m.mean += value / n;
  double neighbours = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double d = x[i] - m.mean;
    m.variance += d * d / n;
    m.fourth += d * d * d * d / n;
    if (i > 0) neighbours += d * (x[i - 1] - m.mean) / n;
  }
  m.fourth /= m.variance * m.variance;
  m.correlation = neighbours / m.variance;
  return m;
}

/// Positions at which two streams agree; about count / 2^32 by chance.
int agreements(const Philox& a, const Philox& b, std::uint64_t shift, int count) {
  int equal = 0;
  for (int i = 0; i < count; ++i) {
    const auto index = static_cast<std::uint64_t>(i);
    equal += a.word(index) == b.word(index + shift) ? 1 : 0;
  }
  return equal;
}

}  // namespace

// Known answers of the Random123 library for philox4x32 with ten rounds; key words in order low, high.
TEST_CASE("philox: published known answers") {
  CHECK(philox4x32({0, 0, 0, 0}, 0) == PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, largest) ==
        PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822) ==
        PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

// R15. The indices around 2^34 are the ones whose block number needs the second counter word.
TEST_CASE("philox: key, counter and word of an index") {
  for (const std::uint64_t seed :
       {std::uint64_t{0}, std::uint64_t{7}, std::uint64_t{0x1234567890abcdef}}) {
    const Philox random(seed, 0xaabbccdd, 0x11223344);
    for (const std::uint64_t base :
         {std::uint64_t{0}, std::uint64_t{1000}, (std::uint64_t{1} << 34) - 4,
          std::uint64_t{1} << 34, std::uint64_t{0xfedcba9876543210}, largest - 8}) {
      for (std::uint64_t index = base; index < base + 9; ++index) {
        const std::uint64_t block = index / 4;
        const PhiloxBlock counter = {static_cast<std::uint32_t>(block & 0xffffffff),
                                     static_cast<std::uint32_t>(block >> 32), 0x11223344,
                                     0xaabbccdd};
        CHECK(random.word(index) == philox4x32(counter, seed)[index % 4]);
      }
    }
  }
  CHECK(Philox(5).word(9) == Philox(5, 0, 0).word(9));
}

TEST_CASE("philox: uniform is the top 24 bits, in [0, 1)") {
  const Philox random(1);
  std::vector<double> values;
  bool as_defined = true;
  for (std::uint64_t i = 0; i < 200000; ++i) {
    const double value = random.uniform(i);
    const double units = value * 0x1p24;
    as_defined = as_defined && value >= 0 && value < 1 && units == std::floor(units) &&
                 units == random.word(i) >> 8;
    values.push_back(value);
  }
  CHECK(as_defined);
  const Moments m = moments(values);
  CHECK(std::abs(m.mean - 0.5) < 0.004);  // six standard errors
  CHECK(std::abs(m.variance - 1.0 / 12) < 0.002);
  CHECK(std::abs(m.correlation) < 0.015);
}

TEST_CASE("philox: below stays below and is even") {
  const Philox random(2, 3);
  for (const std::uint64_t bound :
       {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{3}, std::uint64_t{1000},
        std::uint64_t{1} << 32, (std::uint64_t{1} << 32) + 1, std::uint64_t{1} << 63, largest}) {
    bool inside = true;
    std::vector<double> values;
    for (std::uint64_t i = 0; i < 20000; ++i) {
      const std::uint64_t value = random.below(i, bound);
      inside = inside && value < bound;
      values.push_back(static_cast<double>(value) / static_cast<double>(bound));
    }
    CAPTURE(bound);
    CHECK(inside);
    if (bound < 1000) continue;
    const Moments m = moments(values);
    CHECK(std::abs(m.mean - 0.5) < 0.013);
    CHECK(std::abs(m.variance - 1.0 / 12) < 0.005);
    CHECK(std::abs(m.correlation) < 0.05);
  }
  std::vector<int> histogram(10);
  for (std::uint64_t i = 0; i < 100000; ++i) ++histogram[random.below(i, 10)];
  double chi_square = 0;
  for (const int count : histogram) chi_square += (count - 10000.0) * (count - 10000.0) / 10000.0;
  CHECK(chi_square < 33.7);  // 9 degrees of freedom, 1 in 10000
}

// A bound of 2^63 uses all random bits but the last. Two words per value, each used once: a value whose
// halves are the same word, or that shares a word with another value, would still be uniform on its own.
TEST_CASE("philox: below uses 64 random bits, and no bit twice") {
  const Philox random(4);
  constexpr std::uint64_t bound = std::uint64_t{1} << 63;
  std::uint64_t ones = 0;
  std::uint64_t zeros = 0;
  std::set<std::uint64_t> halves;  // of 31 bits each
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const std::uint64_t value = random.below(i, bound);
    ones |= value;
    zeros |= ~value;
    halves.insert(value >> 32);
    halves.insert(value & 0x7FFFFFFF);
  }
  CHECK(ones == bound - 1);
  CHECK(zeros == largest);
  CHECK(halves.size() >= 1998);  // 2000, if none are equal by chance
}

TEST_CASE("philox: bell has mean 0, variance 1 and the tails of four uniforms") {
  const Philox random(9, 1);
  std::vector<double> values;
  bool inside = true;
  for (std::uint64_t i = 0; i < 200000; ++i) {
    values.push_back(random.bell(i));
    inside = inside && std::abs(values.back()) <= 2 * std::sqrt(3.0) + 1e-6;
  }
  CHECK(inside);
  const Moments m = moments(values);
  CHECK(std::abs(m.mean) < 0.015);
  CHECK(std::abs(m.variance - 1) < 0.02);
  CHECK(std::abs(m.fourth - 2.7) < 0.06);  // one uniform has 1.8, a normal deviate 3
  CHECK(std::abs(m.correlation) < 0.015);  // neighbours share no uniform
}

TEST_CASE("philox: a value depends on its address only, not on earlier reads") {
  const Philox forwards(11, 5, 6);
  const Philox backwards(11, 5, 6);
  std::vector<float> one;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    one.push_back(forwards.uniform(i));
    static_cast<void>(forwards.below(i + 17, 5));
  }
  bool same = true;
  for (std::uint64_t i = 1000; i-- > 0;) same = same && backwards.uniform(i) == one[i];
  CHECK(same);
}

TEST_CASE("philox: seed, stream and t each open another sequence") {
  const Philox base(100, 1, 2);
  for (const std::uint64_t shift : {0, 1, 4, 1000}) {
    CAPTURE(shift);
    CHECK(agreements(base, Philox(101, 1, 2), shift, 5000) <= 1);
    CHECK(agreements(base, Philox(100 + (std::uint64_t{1} << 32), 1, 2), shift, 5000) <= 1);
    CHECK(agreements(base, Philox(100, 2, 2), shift, 5000) <= 1);
    CHECK(agreements(base, Philox(100, 1, 3), shift, 5000) <= 1);
    CHECK(agreements(base, Philox(100, 2, 1), shift, 5000) <= 1);
  }
  CHECK(agreements(base, Philox(100, 1, 2), 0, 5000) == 5000);
}

}  // namespace philox_test
