// Fake quantization by hand.

#include <bit>
#include <cmath>
#include <vector>

#include "common/base/error.hpp"
#include "doctest.h"
#include "reference/operations.hpp"

namespace fake_quantize_test {

using namespace zeroproof;

namespace {

std::uint32_t bits_of_amax(float value) { return std::bit_cast<std::uint32_t>(value); }

std::vector<float> faked(const FakeQuantization& options, const std::vector<float>& values,
                         const std::vector<std::uint32_t>& amax) {
  std::vector<float> target(values.size());
  reference::fake_quantize({}, options, 0, values, amax, target);
  return target;
}

FakeQuantization one_row(std::int64_t columns, FakeFormat format = FakeFormat::integer,
                         int bits = 8) {
  return {one_block(1, columns), format, bits};
}

std::vector<int> codes_of(const FakeQuantization& options, const std::vector<float>& values,
                          float amax) {
  std::vector<std::int8_t> codes(values.size());
  const std::uint32_t bits = bits_of_amax(amax);
  reference::quantize_integer({}, options, 0, values, {&bits, 1}, codes);
  return {codes.begin(), codes.end()};
}

}  // namespace

TEST_CASE("fake_quantize: integers tie to even and are clipped, narrow or full range") {
  // amax 127: the scale is 1, and a code is the nearest integer.
  const std::vector<float> values = {0.5F,   1.5F,   2.5F, -0.5F,   -1.5F,
                                     126.5F, 127.4F, 130,  -127.6F, -1000};
  FakeQuantization options = one_row(10);
  CHECK(codes_of(options, values, 127) ==
        std::vector<int>{0, 2, 2, 0, -2, 126, 127, 127, -127, -127});
  options.narrow = false;
  CHECK(codes_of(options, values, 127) ==
        std::vector<int>{0, 2, 2, 0, -2, 126, 127, 127, -128, -128});
  options = one_row(10, FakeFormat::integer, 4);
  CHECK(codes_of(options, values, 7) == std::vector<int>{0, 2, 2, 0, -2, 7, 7, 7, -7, -7});
}

TEST_CASE(
    "fake_quantize: integers are codes divided by the scale; amax of at most 2^-24 gives zeros") {
  const FakeQuantization options = one_row(4, FakeFormat::integer, 2);  // codes -1, 0, 1
  const std::vector<float> values = {3, 1, -2, -0.5F};
  CHECK(faked(options, values, {bits_of_amax(4)}) == std::vector<float>{4, 0, -0.0F, -0.0F});
  CHECK(std::signbit(faked(options, values, {bits_of_amax(4)})[3]));
  CHECK(faked(options, values, {bits_of_amax(3)}) == std::vector<float>{3, 0, -3, -0.0F});
  const std::vector<float> tiny = {0x1p-25F, -0x1p-24F, NAN, INFINITY};
  const std::vector<float> zeros = faked(options, tiny, {bits_of_amax(0x1p-24F)});
  CHECK(zeros[0] == 0);
  CHECK(zeros[1] == 0);
  CHECK_FALSE(std::signbit(zeros[1]));
  CHECK(std::isnan(zeros[2]));
  CHECK(zeros[3] == 0);
  const std::vector<float> above =
      faked(options, {0x1p-23F, 0, 0, 0}, {bits_of_amax(std::nextafter(0x1p-24F, 1.0F))});
  CHECK(above[0] == std::nextafter(0x1p-24F, 1.0F));  // code 1 of 1 / amax
}

TEST_CASE("fake_quantize: integers with an infinite or NaN amax are NaN") {
  const FakeQuantization options = one_row(2);
  for (const std::uint32_t amax : {0x7F800000U, 0x7FC00000U, 0x80000001U}) {
    CHECK(std::isnan(faked(options, {1, -2}, {amax})[0]));
  }
}

TEST_CASE("fake_quantize: fp8 rounds the scale twice, saturates, and has scale 1 for a tiny amax") {
  const FakeQuantization options = one_row(4, FakeFormat::e4m3);
  // amax 448: the scale is 1. 17 is midway between 16 and 18: to the even fraction.
  CHECK(faked(options, {17, 19, 1000, -460}, {bits_of_amax(448)}) ==
        std::vector<float>{16, 20, 448, -448});
  // amax 3: g = fp32(448 / 3), h = fp32(1 / g); 3 * g is 448 or its neighbour, and becomes 448 * h.
  const float g = 448.0F / 3.0F, h = 1.0F / g;
  CHECK(faked(options, {3, 0, 0, 0}, {bits_of_amax(3)})[0] == 448.0F * h);
  CHECK(faked(options, {1, 2, 0.0F, 0}, {bits_of_amax(0)}) ==
        faked(options, {1, 2, 0.0F, 0}, {bits_of_amax(1)}));
  const FakeQuantization five = one_row(2, FakeFormat::e5m2);
  CHECK(faked(five, {9, 57344}, {bits_of_amax(57344)}) == std::vector<float>{8, 57344});
}

TEST_CASE("fake_quantize: an amax for every row, and for every column") {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  FakeQuantization options{{2, 3, 1, 3}, FakeFormat::integer, 2};
  CHECK(faked(options, values, {bits_of_amax(1), bits_of_amax(6)}) ==
        std::vector<float>{1, 1, 1, 6, 6, 6});
  options.grid = {2, 3, 2, 1};
  CHECK(faked(options, values, {bits_of_amax(1), bits_of_amax(2), bits_of_amax(12)}) ==
        std::vector<float>{1, 2, 0, 1, 2, 0});
}

TEST_CASE("fake_quantize: invalid arguments are rejected and nothing is written") {
  std::vector<float> target = {7, 7};
  const std::vector<float> values = {1, 2};
  const std::vector<std::uint32_t> amax = {bits_of_amax(1)};
  FakeQuantization options = one_row(2);
  options.bits = 17;
  CHECK_THROWS_AS(reference::fake_quantize({}, options, 0, values, amax, target), Error);
  options.bits = 8;
  CHECK_THROWS_AS(reference::fake_quantize({}, options, 1, values, amax, target), Error);
  CHECK_THROWS_AS(reference::fake_quantize({}, options, 0, values, {}, target), Error);
  std::vector<std::int8_t> codes(2, 3);
  options.bits = 9;
  CHECK_THROWS_AS(reference::quantize_integer({}, options, 0, values, amax, codes), Error);
  CHECK(target == std::vector<float>{7, 7});
  CHECK(codes == std::vector<std::int8_t>{3, 3});
}

}  // namespace fake_quantize_test
