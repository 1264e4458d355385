// The 8-bit formats by hand.

#include "common/base/float_formats.hpp"
#include "reference/operations.hpp"
#include "tests/reference/support.hpp"

namespace fp8_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

template <class Format>
std::vector<int> cast(const std::vector<float>& source);
template <>
std::vector<int> cast<e4m3>(const std::vector<float>& source) {
  std::vector<e4m3> target(source.size());
  reference::cast_to_e4m3({}, source, target);
  std::vector<int> codes;
  for (const e4m3 value : target) codes.push_back(value.bits);
  return codes;
}
template <>
std::vector<int> cast<e5m2>(const std::vector<float>& source) {
  std::vector<e5m2> target(source.size());
  reference::cast_to_e5m2({}, source, target);
  std::vector<int> codes;
  for (const e5m2 value : target) codes.push_back(value.bits);
  return codes;
}

}  // namespace

TEST_CASE("e4m3: by hand") {
  // 1.0 is 0x38 (exponent field 7, fraction 0); fractions are eighths. 1 + 1/16 is a tie to 1
  // (even), 1 + 3/16 one to 1 + 2/8. The smallest normal is 2^-6 (0x08), the smallest subnormal
  // 2^-9 (0x01), and 2^-10 a tie to 0.
  CHECK(cast<e4m3>({1, 1.0625F, 1.1875F, -1, 0, -0.0F}) ==
        std::vector<int>{0x38, 0x38, 0x3A, 0xB8, 0x00, 0x80});
  CHECK(cast<e4m3>({0x1p-6F, 0x1p-9F, 0x1p-10F, 0x3p-10F, 0x1.01p-10F, 0x0.Fp-6F, -0x1p-11F}) ==
        std::vector<int>{0x08, 0x01, 0x00, 0x02, 0x01, 0x08, 0x80});
  // 448 is 1.75 * 2^8, 0x7E. Everything above saturates to it, infinity too; 0x7F is NaN.
  CHECK(cast<e4m3>({448, 432, 431, 449, 464, 480, 1e30F, inf32, -inf32, -1000}) ==
        std::vector<int>{0x7E, 0x7E, 0x7D, 0x7E, 0x7E, 0x7E, 0x7E, 0x7E, 0xFE, 0xFE});
  CHECK(cast<e4m3>({15.5F, 15.6F, 14.9F}) ==
        std::vector<int>{0x58, 0x58, 0x57});  // 15.5 is a tie to 16
  CHECK((cast<e4m3>({nan32, -nan32})[0] & 0x7F) == 0x7F);
  CHECK((cast<e4m3>({nan32, -nan32})[1] & 0x7F) == 0x7F);
}

TEST_CASE("e5m2: by hand") {
  // 1.0 is 0x3C (exponent field 15, fraction 0); fractions are quarters. 1 + 1/8 is a tie to 1, 1 +
  // 3/8 one to 1.5.
  CHECK(cast<e5m2>({1, 1.125F, 1.375F, -1, 0, -0.0F}) ==
        std::vector<int>{0x3C, 0x3C, 0x3E, 0xBC, 0x00, 0x80});
  CHECK(cast<e5m2>({0x1p-14F, 0x1p-16F, 0x1p-17F, 0x3p-17F, 0x7p-17F}) ==
        std::vector<int>{0x04, 0x01, 0x00, 0x02, 0x04});
  // 57344 is 1.75 * 2^15, 0x7B; no cast returns the infinity 0x7C.
  CHECK(cast<e5m2>({57344, 57345, 61440, 65536, inf32, -inf32, 3.4e38F}) ==
        std::vector<int>{0x7B, 0x7B, 0x7B, 0x7B, 0x7B, 0xFB, 0x7B});
  const int nan = cast<e5m2>({nan32})[0] & 0x7F;
  CHECK(nan > 0x7C);
}

TEST_CASE("8-bit widening: all 256 values of both formats") {
  std::vector<e4m3> all_e4m3;
  std::vector<e5m2> all_e5m2;
  for (int code = 0; code < 256; ++code) {
    all_e4m3.push_back({static_cast<std::uint8_t>(code)});
    all_e5m2.push_back({static_cast<std::uint8_t>(code)});
  }
  std::vector<float> wide_e4m3(256);
  std::vector<float> wide_e5m2(256);
  reference::widen_e4m3({}, all_e4m3, wide_e4m3);
  reference::widen_e5m2({}, all_e5m2, wide_e5m2);
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < 256; ++i) {
    if (bits(wide_e4m3[i]) != bits(to_float(all_e4m3[i]))) ++wrong;
    if (bits(wide_e5m2[i]) != bits(to_float(all_e5m2[i]))) ++wrong;
  }
  CHECK(wrong == 0);

  // By hand: 0x01 is 2^-9, 0x08 is 2^-6, 0x38 is 1, 0x7E is 448; e5m2 has an infinity.
  CHECK(wide_e4m3[0x01] == 0x1p-9F);
  CHECK(wide_e4m3[0x08] == 0x1p-6F);
  CHECK(wide_e4m3[0xB8] == -1);
  CHECK(wide_e4m3[0x7E] == 448);
  CHECK(std::isnan(wide_e4m3[0x7F]));
  CHECK(std::isnan(wide_e4m3[0xFF]));
  CHECK(bits(wide_e4m3[0x80]) == bits(-0.0F));
  CHECK(wide_e5m2[0x01] == 0x1p-16F);
  CHECK(wide_e5m2[0x7B] == 57344);
  CHECK(wide_e5m2[0xFC] == -inf32);
  CHECK(std::isnan(wide_e5m2[0x7D]));
}

TEST_CASE("8-bit casts: empty views are valid, different lengths are rejected") {
  std::vector<float> two(2);
  std::vector<e4m3> three_e4m3(3);
  std::vector<e5m2> three_e5m2(3);
  reference::cast_to_e4m3({}, {}, {});
  reference::cast_to_e5m2({}, {}, {});
  ZP_CHECK_INVALID(reference::cast_to_e4m3({}, two, three_e4m3));
  ZP_CHECK_INVALID(reference::cast_to_e5m2({}, two, three_e5m2));
  ZP_CHECK_INVALID(reference::widen_e4m3({}, three_e4m3, two));
  ZP_CHECK_INVALID(reference::widen_e5m2({}, three_e5m2, two));
}

}  // namespace fp8_test
