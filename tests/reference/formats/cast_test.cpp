#include "common/base/float_formats.hpp"
#include "reference/operations.hpp"
#include "tests/reference/support.hpp"

namespace cast_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

bool is_nan_16(std::uint16_t value, std::uint16_t infinity) { return (value & 0x7FFFU) > infinity; }

/// Inputs whose casts differ from float_formats.hpp; a NaN may have any payload.
struct Mismatches {
  std::int64_t bf16 = 0;
  std::int64_t fp16 = 0;
};

Mismatches mismatches(const std::vector<float>& source) {
  std::vector<bf16> as_bf16(source.size());
  std::vector<fp16> as_fp16(source.size());
  reference::cast_to_bf16({}, source, as_bf16);
  reference::cast_to_fp16({}, source, as_fp16);
  Mismatches found;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (std::isnan(source[i])) {
      found.bf16 += is_nan_16(as_bf16[i].bits, 0x7F80) ? 0 : 1;
      found.fp16 += is_nan_16(as_fp16[i].bits, 0x7C00) ? 0 : 1;
    } else {
      found.bf16 += as_bf16[i].bits == to_bf16(source[i]).bits ? 0 : 1;
      found.fp16 += as_fp16[i].bits == to_fp16(source[i]).bits ? 0 : 1;
    }
  }
  return found;
}

}  // namespace

TEST_CASE("casts: every 257th fp32 value equals float_formats.hpp") {
  std::int64_t wrong = 0;
  std::vector<float> source;
  for (std::uint64_t pattern = 0; pattern <= 0xFFFFFFFFU; pattern += 257) {
    source.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(pattern)));
    if (source.size() < 65536 && pattern + 257 <= 0xFFFFFFFFU) continue;
    const Mismatches found = mismatches(source);
    wrong += found.bf16 + found.fp16;
    source.clear();
  }
  CHECK(wrong == 0);
}

TEST_CASE("casts: values around every exponent, tie and 16-bit value") {
  std::vector<float> source;
  const auto add_around = [&](std::uint32_t pattern) {
    for (std::uint32_t offset = 0; offset < 5; ++offset)
      source.push_back(std::bit_cast<float>(pattern + offset - 2));
  };
  for (std::uint32_t sign = 0; sign < 2; ++sign) {
    for (std::uint32_t exponent = 0; exponent < 256; ++exponent) {
      // The ties of a format are half a unit of its last place above its values; below 2^-14 fp16
      // has fewer bits.
      for (int low_bit = 0; low_bit < 23; ++low_bit) {
        add_around(sign << 31 | exponent << 23 | std::uint32_t{1} << low_bit);
        add_around(sign << 31 | exponent << 23 | std::uint32_t{3} << low_bit);
        add_around(sign << 31 | exponent << 23 | (0x7FFFFFU >> low_bit << low_bit));
      }
    }
  }
  for (std::uint32_t pattern = 0; pattern < 65536; ++pattern) {
    add_around(pattern << 16);              // bf16 values
    add_around((pattern << 16) + 0x8000U);  // and their ties
    add_around(std::bit_cast<std::uint32_t>(
        to_float(fp16{static_cast<std::uint16_t>(pattern)})));  // fp16 values
  }
  const Mismatches found = mismatches(source);
  CHECK(found.bf16 == 0);
  CHECK(found.fp16 == 0);
}

TEST_CASE("casts: by hand") {
  // bf16 has 7 fraction bits. 1 + 2^-8 is midway between 1 (even) and 1 + 2^-7; 1 + 3 * 2^-8 midway
  // between 1 + 2^-7 (odd) and 1 + 2^-6.
  const std::vector<float> source = {1.0F + 0x1p-8F, 1.0F + 0x3p-8F, -0.0F, 3.4e38F,
                                     0x1p-133F,      0x1p-134F,      inf32};
  std::vector<bf16> rounded(source.size());
  reference::cast_to_bf16({}, source, rounded);
  const std::vector<std::uint16_t> expected = {0x3F80, 0x3F82, 0x8000, 0x7F80,
                                               0x0001, 0x0000, 0x7F80};
  for (std::size_t i = 0; i < source.size(); ++i) CHECK(rounded[i].bits == expected[i]);

  // fp16: the largest value is 65504, and 65520 is midway to the next power of two: infinity. 2^-24
  // is the smallest subnormal, 2^-25 midway to 0, which is even.
  const std::vector<float> source_16 = {65504.0F, 65519.0F, 65520.0F, 0x1p-24F,
                                        0x1p-25F, 0x3p-25F, -0x1p-14F};
  std::vector<fp16> rounded_16(source_16.size());
  reference::cast_to_fp16({}, source_16, rounded_16);
  const std::vector<std::uint16_t> expected_16 = {0x7BFF, 0x7BFF, 0x7C00, 0x0001,
                                                  0x0000, 0x0002, 0x8400};
  for (std::size_t i = 0; i < source_16.size(); ++i) CHECK(rounded_16[i].bits == expected_16[i]);
}

TEST_CASE("widening: all 65536 values of both formats") {
  std::vector<bf16> all_bf16;
  std::vector<fp16> all_fp16;
  for (std::uint32_t pattern = 0; pattern < 65536; ++pattern) {
    all_bf16.push_back({static_cast<std::uint16_t>(pattern)});
    all_fp16.push_back({static_cast<std::uint16_t>(pattern)});
  }
  std::vector<float> wide_bf16(65536);
  std::vector<float> wide_fp16(65536);
  reference::widen_bf16({}, all_bf16, wide_bf16);
  reference::widen_fp16({}, all_fp16, wide_fp16);
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < 65536; ++i) {
    if (bits(wide_bf16[i]) != bits(to_float(all_bf16[i]))) ++wrong;
    if (bits(wide_fp16[i]) != bits(to_float(all_fp16[i]))) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("casts: empty views are valid, different lengths are rejected") {
  std::vector<float> two(2);
  std::vector<bf16> three_bf16(3);
  std::vector<fp16> three_fp16(3);
  reference::cast_to_bf16({}, {}, {});
  reference::widen_fp16({}, {}, {});
  ZP_CHECK_INVALID(reference::cast_to_bf16({}, two, three_bf16));
  ZP_CHECK_INVALID(reference::cast_to_fp16({}, two, three_fp16));
  ZP_CHECK_INVALID(reference::widen_bf16({}, three_bf16, two));
  ZP_CHECK_INVALID(reference::widen_fp16({}, three_fp16, two));
}

}  // namespace cast_test
