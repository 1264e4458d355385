// Hints: each cause is recognised; a similar pattern with another cause has another hint or none.

#include <doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "verification/compare/hint.hpp"
#include "verification/compare/limbs_hint.hpp"

namespace hint_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

using Values = std::vector<float>;

TensorView view(const Values& values) {
  return {const_cast<float*>(values.data()), DType::fp32, static_cast<std::int64_t>(values.size())};
}

/// Numbers without a pattern, and with all their digits.
Values numbers(std::size_t count, int salt) {
  Values values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(std::sin(1.7 * static_cast<double>(i + 1) + salt) *
                                   (1.0 + 0.1 * static_cast<double>(i % 7)));
  }
  return values;
}

template <class Change>
Values changed(Values values, const Change& change) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = change(i, values[i]);
  return values;
}

struct Look {
  Values want, got;
  Values before = {};
  Values grad = {};
  std::vector<NamedFactor> factors = {};
  bool no_order = false;

  std::string said() const {
    HintEvidence e;
    e.want = view(want);
    e.got = view(got);
    if (!before.empty()) e.before = view(before);
    if (!grad.empty()) e.others = {{"grad", view(grad)}};
    e.factors = factors;
    e.no_order = no_order;
    return hint(e);
  }
};

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

constexpr float nan32 = std::numeric_limits<float>::quiet_NaN();
const Values want = numbers(1003, 0);
const Values grad = numbers(1003, 9);

}  // namespace

TEST_CASE("hint: empty without differences or without a fitting rule") {
  CHECK(Look{want, want}.said().empty());
  CHECK(Look{{}, {}}.said().empty());
  CHECK(Look{{nan32}, {-nan32}}.said().empty());
  CHECK(Look{want, numbers(1003, 4), {}, grad}.said().empty());
  CHECK(Look{{1}, {1.5F}}.said().empty());  // one element has any ratio
}

TEST_CASE("hint: unwritten elements") {
  const Values before = numbers(1003, 3);
  const Values got = changed(want, [&](std::size_t i, float x) { return i < 996 ? x : before[i]; });
  const std::string said = Look{want, got, before}.said();
  CHECK(says(said, "they hold their previous values: not written"));
  CHECK(says(said, "only in the last 1003 mod 8 = 3 elements") ==
        false);  // seven of them: 1003 mod 16 is 11
  CHECK(says(said, "only in the last 1003 mod 16 = 11 elements"));
  const Values one = changed(got, [&](std::size_t i, float x) { return i == 5 ? 7.0F : x; });
  CHECK_FALSE(says(Look{want, one, before}.said(), "previous"));
}

TEST_CASE("hint: the loop remainder is the narrowest that holds all differences") {
  const auto tail = [](std::size_t count) {
    return Look{want,
                changed(want, [=](std::size_t i, float x) { return i + count < 1003 ? x : 0.0F; })}
        .said();
  };
  CHECK(says(tail(3), "1003 mod 4 = 3"));
  CHECK(says(tail(11), "1003 mod 16 = 11"));
  CHECK(says(tail(11), "they hold 0"));
  CHECK(says(tail(43), "1003 mod 64 = 43"));
  CHECK(says(tail(60), "only in elements 943 to 1002 of 1003"));
}

TEST_CASE("hint: one kind of value") {
  CHECK(says(Look{want, Values(1003, nan32)}.said(), "they hold NaN; in all 1003 elements"));
  CHECK(says(Look{want, Values(1003, INFINITY)}.said(), "they hold infinity"));
  const Values negated = changed(want, [](std::size_t i, float x) { return i % 3 == 0 ? -x : x; });
  CHECK(says(Look{want, negated}.said(), "with the other sign; in 335 of 1003 elements"));
}

TEST_CASE("hint: the numbers of another buffer, of a neighbour, or of other positions") {
  CHECK(says(Look{want, grad, {}, grad}.said(), "they hold the values of grad"));
  const auto from = [](int step) {
    return changed(want, [=](std::size_t i, float x) {
      const auto at = static_cast<std::size_t>(static_cast<int>(i) + step);
      return at < want.size() ? want[at] : x;
    });
  };
  CHECK(says(Look{want, from(1)}.said(), "they hold the value expected in the next element;"));
  CHECK(says(Look{want, from(-3)}.said(),
             "they hold the value expected in the previous element, 3 places away"));
  const Values turned = changed(want, [](std::size_t i, float) { return want[1002 - i]; });
  CHECK(says(Look{want, turned}.said(), "the expected values in another order"));
}

TEST_CASE("hint: a factor, with its name where it has one") {
  const std::vector<NamedFactor> factors = {{"the number of ranks", 4},
                                            {"the number of micro-batches", 7}};
  const auto times = [&](float factor) {
    return Look{
        want, changed(want, [=](std::size_t, float x) { return x * factor; }), {}, {}, factors}
        .said();
  };
  CHECK(
      says(times(7), "they hold the expected values multiplied by 7, the number of micro-batches"));
  CHECK(says(times(0.25F), "divided by 4, the number of ranks"));
  CHECK(says(times(3), "they hold 3 times the expected values"));
  CHECK_FALSE(says(times(1.0000001F), "times"));
  const Values offset = changed(want, [](std::size_t, float x) { return 3 * x + 0.01F; });
  CHECK_FALSE(says(Look{want, offset}.said(), "times the expected values"));
  CHECK(says(Look{{2}, {14}, {}, {}, factors}.said(),
             "multiplied by 7"));  // a named factor needs only one element
}

TEST_CASE("hint: a factor of one fp64 number, also after roundings to fp32") {
  const std::vector<NamedFactor> factors = {{"the number of micro-batches", 7}};
  const auto of_norm = [&](double factor) {
    double want = 0.5628459049;
    double got = want * factor;
    HintEvidence e;
    e.want = {&want, DType::fp64, 1};
    e.got = {&got, DType::fp64, 1};
    e.factors = factors;
    return hint(e);
  };
  CHECK(says(of_norm(1 / static_cast<double>(1.0F / 7)), "multiplied by 7, the number of micro"));
  CHECK(says(of_norm(1.0F / 7), "divided by 7, the number of micro-batches"));
  CHECK(of_norm(0x1p-16) == "they hold 2^-16 times the expected values");
  CHECK(of_norm(0x1p20) == "they hold 2^20 times the expected values");
  CHECK(of_norm(0.5) == "they hold 0.5 times the expected values");
  CHECK(of_norm(7.00001).empty());
  CHECK(of_norm(18).empty());
}

TEST_CASE("hint: a multiple of another buffer, alone or added") {
  const Values tenth = changed(grad, [](std::size_t, float x) { return 0.1F * x; });
  CHECK(says(Look{want, tenth, {}, grad}.said(), "they hold 0.1 times the values of grad"));
  const Values more = changed(want, [](std::size_t i, float x) { return x + 0.25F * grad[i]; });
  CHECK(says(Look{want, more, {}, grad}.said(), "they hold the expected values plus 0.25"));
  const Values noise =
      changed(want, [](std::size_t i, float x) { return x + 0.25F * grad[i] * grad[i]; });
  CHECK(Look{want, noise, {}, grad}.said().empty());
}

TEST_CASE("hint: fewer digits, and roundings") {
  const Values narrow = changed(want, [](std::size_t, float x) {
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0xFFFF0000U);
  });
  CHECK(says(Look{want, narrow}.said(), "numbers with the precision of bf16"));
  const Values near = changed(
      want, [](std::size_t i, float x) { return i % 5 == 0 ? std::nextafter(x, 9.0F) : x; });
  CHECK(says(Look{want, near}.said(), "at most 2 units in the last place away"));
  const Values off =
      changed(near, [](std::size_t i, float x) { return i == 50 ? x * 1.00001F : x; });
  CHECK(Look{want, off}.said().empty());  // a larger difference is no rounding
}

TEST_CASE("hint: integers have no ratio and no remainder") {
  std::vector<std::uint64_t> a = {1, 2, 3, 4, 5};
  std::vector<std::uint64_t> b = {2, 4, 6, 8, 10};
  HintEvidence e;
  e.want = {a.data(), DType::u64, 5};
  e.got = {b.data(), DType::u64, 5};
  CHECK(hint(e).empty());
  e.before = e.got;
  CHECK(says(hint(e), "their previous values"));
}

TEST_CASE("hint: counts are off by a number") {
  std::vector<std::uint64_t> a = {9, 4, 7};
  std::vector<std::uint64_t> b = {10, 4, 8};
  HintEvidence e;
  e.want = {a.data(), DType::u64, 3};
  e.got = {b.data(), DType::u64, 3};
  CHECK(hint(e).empty());
  e.meaning = Meaning::count;
  CHECK(hint(e) == "they hold 1 more than expected");
  std::swap(e.want, e.got);
  CHECK(hint(e) == "they hold 1 less than expected");
  b[2] = 9;
  CHECK(hint(e).empty());  // one by 1, one by 2
  std::vector<std::uint32_t> words = {0, 3};
  std::vector<std::uint32_t> wrapped = {0xFFFFFFFEU, 3};
  e.want = {words.data(), DType::u32, 2};
  e.got = {wrapped.data(), DType::u32, 2};
  CHECK(hint(e) == "they hold 2 less than expected");
}

TEST_CASE("hint: limbs of a norm are read as their sum") {
  std::vector<std::uint64_t> want(23, 0);
  want[10] = 0x12345678U;
  want[11] = 5;
  std::vector<std::uint64_t> got = want;
  HintEvidence e;
  e.want = {want.data(), DType::u64, 23};
  e.got = {got.data(), DType::u64, 23};
  e.meaning = Meaning::limbs;
  e.factors = {{"the number of ranks", 3}};
  const auto times = [&](std::uint64_t up, std::uint64_t down) {
    for (std::size_t i = 0; i < 21; ++i) got[i] = want[i] * up / down;
    return hint(e);
  };
  CHECK(times(3, 1) ==
        "they represent 3 times the expected sum: as if everything was counted 3 times, the number "
        "of ranks");
  CHECK(says(times(2, 1), "as if everything was counted 2 times"));
  CHECK_FALSE(says(times(2, 1), "ranks"));
  CHECK(says(times(3, 2), "as if a part was counted again"));
  CHECK(says(times(5, 2), "as if a part was counted again"));
  CHECK(says(times(1, 2), "as if a part was left out"));
  CHECK(times(0, 1) == "they represent 0: nothing was counted");
  got = want;
  got[10] += 0x100000000U;  // a carry into the next limb, as in a normalised sum
  got[11] -= 1;
  CHECK(hint(e).empty());  // the same sum
  got[21] = 2;
  CHECK(hint(e) == "nan_count is 2 more than expected");
  want[22] = 1;
  CHECK(hint(e) == "nan_count is 2 more than expected, and inf_count is 1 less than expected");
}

TEST_CASE("limb_name: index and weight, also for a second clip group") {
  CHECK(limb_name(0) == "limb 0, of weight 2^-352");
  CHECK(limb_name(11) == "limb 11, of weight 2^0");
  CHECK(limb_name(20) == "limb 20, of weight 2^288");
  CHECK(limb_name(21) == "nan_count");
  CHECK(limb_name(22) == "inf_count");
  CHECK(limb_name(23 + 12) == "limb 12, of weight 2^32");
}

TEST_CASE("hint: zeros of the other sign, ones, single precision, and sums that cancel") {
  const Values zeros(8, -0.0F);
  CHECK(says(Look{zeros, Values(8, 0.0F)}.said(), "0 with the other sign"));
  const Values ones(9, 1.0F);
  CHECK(says(Look{Values(want.begin(), want.begin() + 9), ones}.said(), "they hold 1;"));
  const auto fp64 = [](double wanted, double gotten) {
    HintEvidence e;
    e.want = {&wanted, DType::fp64, 1};
    e.got = {&gotten, DType::fp64, 1};
    return hint(e);
  };
  CHECK(says(fp64(0.1, double{0.1F}), "the precision of fp32, near the correct ones"));
  CHECK_FALSE(says(fp64(0.1, double{0.2F}), "the precision of fp32"));
  CHECK_FALSE(
      says(fp64(double{0.1F}, double{std::nextafter(0.1F, 1.0F)}), "the precision of fp32"));
  CHECK(says(fp64(0.1, 0.2), "2 times the expected values"));
  CHECK(fp64(0.1, 0.21).empty());
  const Values summed = changed(want, [](std::size_t i, float x) {
    return i % 7 == 0 ? x + 0x1p-24F : std::nextafter(x, 9.0F);  // in units of 1, not of x
  });
  const Values far = changed(summed, [](std::size_t i, float x) { return i == 3 ? x + 1e-3F : x; });
  CHECK(says(Look{want, summed}.said(), "the same sums in another order"));
  Look in_no_order{want, summed};
  in_no_order.no_order = true;
  CHECK_FALSE(says(in_no_order.said(), "another order"));
  CHECK_FALSE(says(Look{want, far}.said(), "another order"));
}

TEST_CASE("hint: no order where none explains the results, and no neighbour of an infinity") {
  constexpr float most = std::numeric_limits<float>::max();
  const Values infinite(9, std::numeric_limits<float>::infinity());
  CHECK_FALSE(says(Look{infinite, Values(9, most)}.said(), "neighbouring"));
  const Values near = changed(want, [](std::size_t, float x) { return std::nextafter(x, 9.0F); });
  Look look{want, near};
  CHECK(says(look.said(), "neighbouring number, at most 2 units in the last place away: the same"));
  look.no_order = true;
  CHECK(says(look.said(), "neighbouring number, at most 2 units in the last place away;"));
}

}  // namespace hint_test
