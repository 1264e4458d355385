#include "common/base/float_formats.hpp"
#include "reference/operations.hpp"
#include "tests/reference/support.hpp"

namespace stochastic_cast_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

std::vector<std::uint16_t> rounded(const std::vector<float>& source, const RoundingDraw& draw) {
  std::vector<bf16> target(source.size());
  reference::stochastic_cast_to_bf16({}, draw, source, target);
  std::vector<std::uint16_t> result;
  for (const bf16 value : target) result.push_back(value.bits);
  return result;
}

/// The word of R15 for a global index, from the block function alone.
std::uint32_t word(const RoundingDraw& draw, std::uint64_t index) {
  const std::uint64_t block = index / 4;
  return philox4x32({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                     static_cast<std::uint32_t>(draw.step), 0x53520001U},
                    draw.seed)[index % 4];
}

}  // namespace

TEST_CASE("stochastic cast: the sum of R8, for any draw and position") {
  std::vector<float> source = random_values(1025, 6, 60);
  source[3] = 0x1.8p-140F;  // a subnormal of both formats
  source[4] = -0x1p-149F;
  for (const RoundingDraw& draw :
       {RoundingDraw{1, 1, 0}, RoundingDraw{0xFEDCBA9876543210U, 7, 1021},
        RoundingDraw{5, 0x300000002U, 0x3FFFFFFF5U}}) {
    const std::vector<std::uint16_t> result = rounded(source, draw);
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < source.size(); ++i) {
      const std::uint32_t sum =
          std::bit_cast<std::uint32_t>(source[i]) + (word(draw, draw.first_index + i) >> 16);
      if (result[i] != static_cast<std::uint16_t>(sum >> 16)) ++wrong;
    }
    CHECK(wrong == 0);
    // A piece of the buffer has the draws of its positions in the whole.
    RoundingDraw later = draw;
    later.first_index += 502;
    const std::vector<float> tail(source.begin() + 502, source.end());
    CHECK(rounded(tail, later) == std::vector<std::uint16_t>(result.begin() + 502, result.end()));
  }
}

TEST_CASE("stochastic cast: exact values and specials do not change") {
  const std::vector<float> fixed = {1,      -2.5F,     0,          -0.0F,      inf32,
                                    -inf32, 0x1p-133F, -0x1p-126F, 0x1.FEp127F};
  for (std::uint64_t step = 0; step < 50; ++step) {
    const std::vector<std::uint16_t> result = rounded(fixed, {3, step, 0});
    for (std::size_t i = 0; i < fixed.size(); ++i) CHECK(result[i] == to_bf16(fixed[i]).bits);
  }
  // NaNs with the smallest and the largest payload; adding to them could give an infinity or a
  // number.
  const std::vector<float> nans = {
      std::bit_cast<float>(0x7F800001U), std::bit_cast<float>(0x7FFFFFFFU),
      std::bit_cast<float>(0xFFFFFFFFU), std::bit_cast<float>(0xFF80FFFFU)};
  for (std::uint64_t step = 0; step < 50; ++step) {
    for (const std::uint16_t bits : rounded(nans, {3, step, 0})) CHECK((bits & 0x7FFFU) > 0x7F80U);
  }
}

TEST_CASE("stochastic cast: rounds up for the correct share of all draws") {
  // 1 + 2^-9 is a quarter of the gap 2^-7 above 1: one draw in four rounds up. With 40000 draws the
  // share has a standard deviation of 0.0022.
  const std::vector<float> source(40000, 1 + 0x1p-9F);
  std::int64_t up = 0;
  for (const std::uint16_t bits : rounded(source, {11, 1, 0})) {
    CHECK((bits == 0x3F80 || bits == 0x3F81));
    if (bits == 0x3F81) ++up;
  }
  CHECK(up > 9600);
  CHECK(up < 10400);
  // The sign has no effect: the magnitude is rounded up as often.
  const std::vector<float> negative(40000, -(1 + 0x1p-9F));
  std::int64_t away = 0;
  for (const std::uint16_t bits : rounded(negative, {11, 1, 0})) away += bits == 0xBF81 ? 1 : 0;
  CHECK(away == up);
}

TEST_CASE("stochastic cast: values above the largest finite one, and the inputs of a draw") {
  const std::vector<float> high(4000, 3.4e38F);  // between the largest bf16 and infinity
  std::int64_t infinities = 0;
  for (const std::uint16_t bits : rounded(high, {1, 1, 0})) {
    CHECK((bits == 0x7F7F || bits == 0x7F80));
    infinities += bits == 0x7F80 ? 1 : 0;
  }
  CHECK(infinities > 0);
  CHECK(infinities < 4000);

  const std::vector<float> source = random_values(300, 8);
  const std::vector<std::uint16_t> first = rounded(source, {1, 2, 3});
  CHECK(rounded(source, {1, 2, 3}) == first);
  CHECK(rounded(source, {2, 2, 3}) != first);
  CHECK(rounded(source, {1, 3, 3}) != first);
  CHECK(rounded(source, {1, 2, 4}) != first);
  CHECK(rounded(source, {std::uint64_t{1} << 32 | 1, 2, 3}) != first);
  CHECK(rounded(source, {1, 2, std::uint64_t{1} << 40 | 3}) != first);
  CHECK(rounded(source, {1, std::uint64_t{1} << 32 | 2, 3}) ==
        first);  // only the low word of t counts
}

TEST_CASE("stochastic cast: empty views are valid, different lengths are rejected") {
  std::vector<float> two(2);
  std::vector<bf16> three(3);
  reference::stochastic_cast_to_bf16({}, {}, {}, {});
  ZP_CHECK_INVALID(reference::stochastic_cast_to_bf16({}, {}, two, three));
}

}  // namespace stochastic_cast_test
