#include "common/base/float_formats.hpp"
#include "reference/operations.hpp"
#include "tests/reference/support.hpp"

namespace cast_test {

using namespace zeroproof;
using namespace zeroproof::tests;

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
