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

}  // namespace

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
