// A master as a bf16 parameter and a 16-bit remainder: joining restores the master, for every
// float.

#include "common/base/float_formats.hpp"
#include "common/base/parallel_for.hpp"
#include "reference/operations.hpp"
#include "tests/reference/support.hpp"

namespace master_split_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

constexpr SplitRule ours = SplitRule::nearest;
constexpr SplitRule theirs = SplitRule::transformer_engine;

struct Pair {
  std::uint16_t param;
  std::uint16_t remainder;
  bool operator==(const Pair&) const = default;
};

Pair split(SplitRule rule, std::uint32_t b) {
  const float master = std::bit_cast<float>(b);
  bf16 param{};
  std::uint16_t remainder = 0;
  reference::split_master({}, rule, {&master, 1}, {&param, 1}, {&remainder, 1});
  return {param.bits, remainder};
}

std::uint32_t join(SplitRule rule, Pair pair) {
  const bf16 param{pair.param};
  float master = 0;
  reference::join_master({}, rule, {&param, 1}, {&pair.remainder, 1}, {&master, 1});
  return std::bit_cast<std::uint32_t>(master);
}

bool is_nan(std::uint32_t b) { return (b & 0x7FFFFFFFU) > 0x7F800000U; }

/// Deviations from the rules, over the floats with bits(i), i in [0, count).
struct Wrong {
  std::int64_t joined = 0;  ///< masters that are not restored
  std::int64_t nans = 0;    ///< NaNs with another parameter, or the reverse
  std::int64_t not_nearest =
      0;  ///< parameters that are not those of the cast to nearest even, NaN aside
  std::int64_t not_ties =
      0;  ///< of these, masters that are not half-way above a parameter with an even last bit
};

template <class Bits>
Wrong over(SplitRule rule, std::int64_t count, Bits bits_of) {
  constexpr std::int64_t block = 1 << 14;
  const std::int64_t blocks = (count + block - 1) / block;
  std::vector<Wrong> found(blocks);
  parallel_for(2, blocks, [&](std::int64_t b) {
    const auto numel = static_cast<std::size_t>(std::min(block, count - b * block));
    std::vector<float> master(numel), again(numel);
    std::vector<bf16> param(numel);
    std::vector<std::uint16_t> remainder(numel);
    for (std::size_t i = 0; i < numel; ++i) {
      master[i] = std::bit_cast<float>(bits_of(b * block + static_cast<std::int64_t>(i)));
    }
    reference::split_master({}, rule, master, param, remainder);
    reference::join_master({}, rule, param, remainder, again);
    Wrong& wrong = found[b];
    for (std::size_t i = 0; i < numel; ++i) {
      const auto was = std::bit_cast<std::uint32_t>(master[i]);
      const auto is = std::bit_cast<std::uint32_t>(again[i]);
      const bool nan = is_nan(was);
      wrong.joined += was == is || (rule == ours && nan && is_nan(is)) ? 0 : 1;
      wrong.nans += nan == ((param[i].bits & 0x7FFFU) > 0x7F80U) ? 0 : 1;
      if (nan || param[i].bits == to_bf16(master[i]).bits) continue;
      ++wrong.not_nearest;
      wrong.not_ties += (was & 0x1FFFFU) == 0x8000U ? 0 : 1;
    }
  });
  Wrong all;
  for (const Wrong& wrong : found) {
    all.joined += wrong.joined;
    all.nans += wrong.nans;
    all.not_nearest += wrong.not_nearest;
    all.not_ties += wrong.not_ties;
  }
  return all;
}

}  // namespace

TEST_CASE("split_master: by hand") {
  for (const SplitRule rule : {ours, theirs}) {
    CHECK(split(rule, 0x3F800000) == Pair{0x3F80, 0x0000});  // 1
    CHECK(split(rule, 0x3F807FFF) == Pair{0x3F80, 0x7FFF});
    CHECK(split(rule, 0x3F808000) ==
          Pair{0x3F81, 0x8000});  // a tie: away from zero, where the cast has 0x3F80
    CHECK(split(rule, 0x3F818000) ==
          Pair{0x3F82, 0x8000});  // a tie that the cast rounds the same way
    CHECK(split(rule, 0xBF808000) == Pair{0xBF81, 0x8000});
    CHECK(split(rule, 0x00000001) == Pair{0x0000, 0x0001});  // the smallest subnormal is kept
    CHECK(split(rule, 0x80000000) == Pair{0x8000, 0x0000});
    CHECK(split(rule, 0x7F7FFFFF) ==
          Pair{0x7F80, 0xFFFF});  // the largest: its parameter is infinite, as in the cast
    CHECK(split(rule, 0x7F800000) == Pair{0x7F80, 0x0000});
    CHECK(join(rule, {0x3F81, 0x8000}) == 0x3F808000);
    CHECK(join(rule, {0x3F81, 0x7FFF}) == 0x3F817FFF);
    CHECK(join(rule, {0x7F80, 0xFFFF}) == 0x7F7FFFFF);
  }
}

TEST_CASE(
    "split_master: a NaN stays a NaN; TransformerEngine's rule gives infinity or zero for some") {
  for (const std::uint32_t b : {0x7F800001U, 0x7F807FFFU, 0x7F808000U, 0x7FC00000U, 0x7FFF8000U,
                                0x7FFFFFFFU, 0xFF800001U, 0xFFFFFFFFU}) {
    CHECK(split(ours, b) == Pair{0x7FFF, 0});
    CHECK(is_nan(join(ours, split(ours, b))));
    CHECK(join(theirs, split(theirs, b)) == b);
  }
  CHECK(split(theirs, 0x7FFFFFFF) ==
        Pair{0x8000, 0xFFFF});  // a parameter of -0, and a master that is a NaN
  CHECK(split(theirs, 0xFFFFFFFF) == Pair{0x0000, 0xFFFF});
  CHECK(split(theirs, 0x7F800001) == Pair{0x7F80, 0x0001});
  CHECK(split(theirs, 0x7FC00000) ==
        Pair{0x7FC0, 0x0000});  // the NaN of x86 arithmetic stays a NaN
}

TEST_CASE("join_master: a parameter of another origin is joined") {
  CHECK(join(ours, {0x3F80, 0xFFFF}) == 0x3F7FFFFF);
  CHECK(join(theirs, {0x0000, 0x8000}) == 0xFFFF8000);  // nothing is below zero: modulo 2^32
  CHECK(is_nan(join(ours, {0x0000, 0x8000})));
  for (const std::uint16_t remainder :
       {std::uint16_t{0}, std::uint16_t{0x8000}, std::uint16_t{0xFFFF}}) {
    CHECK(is_nan(join(ours, {0x7F81, remainder})));
    CHECK(is_nan(join(ours, {0xFFFF, remainder})));
  }
  CHECK(join(theirs, {0x7F81, 0x8000}) == 0x7F808000);
}

TEST_CASE(
    "join_master: every parameter with the extreme and middle remainders, by TransformerEngine's "
    "rule") {
  constexpr std::uint16_t remainders[] = {0,      1,      2,      0x00FF, 0x0100, 0x5555, 0x7FFE,
                                          0x7FFF, 0x8000, 0x8001, 0xAAAA, 0xFF00, 0xFFFE, 0xFFFF};
  std::int64_t wrong = 0;
  for (std::uint32_t param = 0; param < 0x10000U; ++param) {
    for (const std::uint16_t remainder : remainders) {
      const Pair pair{static_cast<std::uint16_t>(param), remainder};
      wrong += split(theirs, join(theirs, pair)) == pair ? 0 : 1;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("split_master: every 61st float is restored") {
  const auto some = [](std::int64_t i) { return static_cast<std::uint32_t>(61 * i); };
  for (const SplitRule rule : {ours, theirs}) {
    const Wrong wrong = over(rule, (std::int64_t{1} << 32) / 61, some);
    CHECK(wrong.joined == 0);
    CHECK(wrong.not_ties == 0);
    CHECK((wrong.nans == 0) == (rule == ours));
  }
}

TEST_CASE("nightly: split_master: every float is restored") {
  const auto all = [](std::int64_t i) { return static_cast<std::uint32_t>(i); };
  for (const SplitRule rule : {ours, theirs}) {
    const Wrong wrong = over(rule, std::int64_t{1} << 32, all);
    // None of the 2^32 patterns is lost, so TransformerEngine's rule is a bijection of them.
    CHECK(wrong.joined == 0);
    // [SPLIT:no_even]: one master for each even bf16 below infinity, of either sign, is rounded
    // differently than by the cast.
    CHECK(wrong.not_nearest == 2 * 0x7F80 / 2);
    CHECK(wrong.not_ties == 0);
    // NaNs with an infinite parameter, and with a zero.
    CHECK(wrong.nans == (rule == ours ? 0 : 2 * (0x7FFF + 0x8000)));
  }
}

TEST_CASE("split_master: empty views are valid, different lengths are rejected") {
  std::vector<float> two(2), three(3);
  std::vector<bf16> params(3);
  std::vector<std::uint16_t> remainders(3);
  reference::split_master({}, ours, {}, {}, {});
  reference::join_master({}, ours, {}, {}, {});
  ZP_CHECK_INVALID(reference::split_master({}, ours, two, params, remainders));
  ZP_CHECK_INVALID(
      reference::split_master({}, ours, three, params, Span<std::uint16_t>(remainders).first(2)));
  ZP_CHECK_INVALID(reference::join_master({}, ours, params,
                                          Span<const std::uint16_t>(remainders).first(2), three));
  ZP_CHECK_INVALID(reference::join_master({}, ours, params, remainders, two));
}

}  // namespace master_split_test
