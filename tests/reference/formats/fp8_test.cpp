// The 8-bit formats, against tables and against a search for the nearest value.

#include <algorithm>

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

/// Largest magnitude code of a finite value.
template <class Format>
constexpr int largest = 0;
template <>
constexpr int largest<e4m3> = 0x7E;
template <>
constexpr int largest<e5m2> = 0x7B;

/// R8 by search: the code of the nearest finite value, of two equally near the even one.
template <class Format>
int nearest_code(float value) {
  // No value is nearer to a magnitude above the largest value.
  const double top = to_float(Format{static_cast<std::uint8_t>(largest<Format>)});
  const double magnitude = std::fabs(double{value}) < top ? std::fabs(double{value}) : top;
  int best = 0;
  double best_distance = inf64;
  for (int code = 0; code <= largest<Format>; ++code) {
    const double here = to_float(Format{static_cast<std::uint8_t>(code)});
    const double distance = std::fabs(magnitude - here);
    if (distance < best_distance || (distance == best_distance && code % 2 == 0)) {
      best = code;
      best_distance = distance;
    }
  }
  return best | (std::signbit(value) ? 0x80 : 0);
}

/// Both signs of every finite value, of every midpoint between neighbours, and of the fp32 values
/// next to them; and values far outside.
template <class Format>
std::vector<float> interesting() {
  std::vector<float> values;
  const auto add = [&](float center) {
    for (const float sign : {1.0F, -1.0F}) {
      values.push_back(sign * center);
      values.push_back(sign * std::nextafter(center, inf32));
      values.push_back(sign * std::nextafter(center, -inf32));
    }
  };
  for (int code = 0; code <= largest<Format>; ++code) {
    const float here = to_float(Format{static_cast<std::uint8_t>(code)});
    add(here);
    if (code > 0) add((here + to_float(Format{static_cast<std::uint8_t>(code - 1)})) / 2);
  }
  const float top = to_float(Format{static_cast<std::uint8_t>(largest<Format>)});
  for (const float center : {top * 1.03125F, top * 1.0625F, top * 1.125F, top * 2, 1e30F, 3.4e38F,
                             0x1p-126F, 0x1p-140F, 0x1p-149F, inf32}) {
    add(center);
  }
  values.erase(std::remove_if(values.begin(), values.end(), [](float v) { return std::isnan(v); }),
               values.end());
  return values;
}

template <class Format>
std::int64_t num_wrong(const std::vector<float>& values) {
  const std::vector<int> codes = cast<Format>(values);
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (codes[i] != nearest_code<Format>(values[i])) ++wrong;
  }
  return wrong;
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

TEST_CASE("8-bit casts: values, ties and their neighbours, against a search") {
  CHECK(num_wrong<e4m3>(interesting<e4m3>()) == 0);
  CHECK(num_wrong<e5m2>(interesting<e5m2>()) == 0);
}

TEST_CASE("8-bit casts: values of all exponents, against a search") {
  const Philox philox(12);
  std::vector<float> values;
  for (std::uint64_t i = 0; i < 60000; ++i) {
    const float value = std::bit_cast<float>(philox.word(i));
    if (!std::isnan(value)) values.push_back(value);
  }
  const std::vector<float> near_one = random_values(20000, 4, 18);
  values.insert(values.end(), near_one.begin(), near_one.end());
  CHECK(num_wrong<e4m3>(values) == 0);
  CHECK(num_wrong<e5m2>(values) == 0);
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
