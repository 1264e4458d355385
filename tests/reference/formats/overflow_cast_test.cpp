// The 8-bit casts without saturation, and the exponent of a block scale, by hand.

#include "common/base/float_formats.hpp"
#include "reference/operations.hpp"
#include "tests/reference/support.hpp"

namespace overflow_cast_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

template <class Format>
using Cast = void(const Exec&, Span<const float>, Span<Format>);

template <class Format>
std::vector<int> codes(Cast<Format>* cast, const std::vector<float>& source) {
  std::vector<Format> target(source.size());
  cast({}, source, target);
  std::vector<int> bits;
  for (const Format value : target) bits.push_back(value.bits);
  return bits;
}

std::vector<int> e8m0_codes(const std::vector<float>& source) {
  return codes(reference::cast_to_e8m0, source);
}

}  // namespace

TEST_CASE("overflow nonfinite: by hand") {
  const auto four = [](const std::vector<float>& x) {
    return codes(reference::nonfinite_cast_to_e4m3, x);
  };
  const auto five = [](const std::vector<float>& x) {
    return codes(reference::nonfinite_cast_to_e5m2, x);
  };
  CHECK(four({1, 448, 449, 464, -464, 0.0F, -0.0F}) ==
        std::vector<int>{0x38, 0x7E, 0x7E, 0x7E, 0xFE, 0x00, 0x80});
  for (const float x :
       {std::nextafter(464.0F, inf32), 480.0F, 1e30F, inf32, -inf32, -465.0F, nan32}) {
    CHECK((four({x})[0] & 0x7F) == 0x7F);  // e4m3 has no infinity
  }
  // 61440 is the tie between 57344 (1.11, odd) and 65536, which is infinity here.
  CHECK(five({1, 57344, std::nextafter(61440.0F, 0.0F), 61440, -61440, inf32, -inf32, 3e38F}) ==
        std::vector<int>{0x3C, 0x7B, 0x7B, 0x7C, 0xFC, 0x7C, 0xFC, 0x7C});
  CHECK((five({nan32})[0] & 0x7F) > 0x7C);
}

TEST_CASE("e8m0: by hand") {
  // 127 is 1; a value above a power of two gets the next one, up to 2^127, the largest.
  CHECK(e8m0_codes(
            {1, 2, 0.5F, 1.5F, -1.5F, std::nextafter(1.0F, 2.0F), std::nextafter(1.0F, 0.0F)}) ==
        std::vector<int>{127, 128, 126, 128, 128, 128, 127});
  CHECK(e8m0_codes({0x1p127F, std::nextafter(0x1p127F, inf32), 3.4e38F, inf32, -inf32, nan32}) ==
        std::vector<int>{254, 254, 254, 254, 254, 255});
  // 2^-127 is code 0 and a subnormal fp32; above it is 2^-126.
  CHECK(e8m0_codes({0, -0.0F, 0x1p-149F, 0x1p-127F, std::nextafter(0x1p-127F, 1.0F), 0x1p-126F,
                    std::nextafter(0x1p-126F, 1.0F)}) == std::vector<int>{0, 0, 0, 0, 1, 1, 2});
}

TEST_CASE("e8m0: all codes widened and cast back") {
  std::vector<e8m0> all;
  for (int code = 0; code < 256; ++code) all.push_back({static_cast<std::uint8_t>(code)});
  std::vector<float> wide(256);
  reference::widen_e8m0({}, all, wide);
  const std::vector<int> back = e8m0_codes(wide);
  for (int code = 0; code < 255; ++code) {
    const auto at = static_cast<std::size_t>(code);
    CHECK(double{wide[at]} == std::ldexp(1.0, code - 127));
    CHECK(bits(wide[at]) == bits(to_float(all[at])));
    CHECK(back[at] == code);
  }
  CHECK(bits(wide[0]) == 0x00400000U);
  CHECK(std::isnan(wide[255]));
  CHECK(std::isnan(to_float(all[255])));
  CHECK(back[255] == 255);
}

TEST_CASE("overflow, e8m0: empty views are valid, different lengths are rejected") {
  std::vector<float> two(2);
  std::vector<e4m3> four(3);
  std::vector<e5m2> five(3);
  std::vector<e8m0> eight(3);
  reference::nonfinite_cast_to_e4m3({}, {}, {});
  reference::cast_to_e8m0({}, {}, {});
  ZP_CHECK_INVALID(reference::nonfinite_cast_to_e4m3({}, two, four));
  ZP_CHECK_INVALID(reference::nonfinite_cast_to_e5m2({}, two, five));
  ZP_CHECK_INVALID(reference::cast_to_e8m0({}, two, eight));
  ZP_CHECK_INVALID(reference::widen_e8m0({}, eight, two));
}

}  // namespace overflow_cast_test
