// Properties of every element type, written out.

#include <doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "common/base/float_formats.hpp"

namespace format_test {

using namespace zeroproof;

namespace {

struct Row {
  DType dtype;
  const char* name;
  std::int64_t num_bytes;
  std::uint64_t nan;          ///< the canonical NaN (R9); 0: an integer
  std::uint64_t last_number;  ///< the largest pattern below the NaNs
};

constexpr std::array<Row, 10> rows = {{
    {DType::fp32, "fp32", 4, 0x7FFFFFFF, 0x7F800000},
    {DType::bf16, "bf16", 2, 0x7FFF, 0x7F80},
    {DType::fp16, "fp16", 2, 0x7FFF, 0x7C00},
    {DType::fp64, "fp64", 8, 0x7FFFFFFFFFFFFFFF, 0x7FF0000000000000},
    {DType::u32, "u32", 4, 0, 0},
    {DType::u64, "u64", 8, 0, 0},
    {DType::e4m3, "e4m3", 1, 0x7F, 0x7E},
    {DType::e5m2, "e5m2", 1, 0x7F, 0x7C},
    {DType::u16, "u16", 2, 0, 0},
    {DType::e8m0, "e8m0", 1, 0xFF, 0xFE},
}};

}  // namespace

TEST_CASE("formats: every element type has its row") {
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(name(row.dtype) == row.name);
    CHECK(num_bytes(row.dtype) == row.num_bytes);
    visit_format(row.dtype, [&](auto format) {
      using Format = decltype(format);
      CHECK(static_cast<std::int64_t>(sizeof(typename Format::type)) == row.num_bytes);
      CHECK(sizeof(typename Format::Bits) == sizeof(typename Format::type));
      CHECK(Format::is_float == (row.nan != 0));
      if constexpr (Format::is_float) {
        CHECK(Format::magnitude == row.nan);
        CHECK(Format::infinity == row.last_number);
        using Bits = typename Format::Bits;
        const Bits sign = static_cast<Bits>(~Format::magnitude);
        CHECK(Format::is_nan(Format::magnitude));
        CHECK(Format::is_nan(static_cast<Bits>(Format::infinity + 1)));
        CHECK(Format::is_nan(static_cast<Bits>(sign | (Format::infinity + 1))));
        CHECK_FALSE(Format::is_nan(Format::infinity));
        CHECK_FALSE(Format::is_nan(static_cast<Bits>(sign | Format::infinity)));
        CHECK_FALSE(Format::is_nan(0));
        CHECK(std::isnan(value_of<Format>(row.nan)));
        CHECK_FALSE(std::isnan(value_of<Format>(row.last_number)));
      }
    });
  }
}

TEST_CASE(
    "formats: gradients and parameters are fp32, bf16 or fp16, and are read and written by "
    "element") {
  for (const Row& row : rows) {
    const std::string format = row.name;
    CHECK(is_param_format(row.dtype) == (format == "fp32" || format == "bf16" || format == "fp16"));
    if (!is_param_format(row.dtype)) continue;
    CAPTURE(format);
    visit_param_format(row.dtype, [&](auto found) { CHECK(decltype(found)::name == format); });
    std::array<std::uint32_t, 3> memory{};
    const TensorView view{memory.data(), row.dtype, 3};
    store_element(view, 0, 1.001F);
    store_element(view, 1, -0.0F);
    store_element(view, 2, std::numeric_limits<float>::infinity());
    // 1.001 is between 1 and 1 + 2^-7 of bf16, and next to 1 + 2^-10 of fp16.
    CHECK(load_element(view, 0) == (format == "fp32"   ? 1.001F
                                    : format == "bf16" ? 1.0F
                                                       : 1.0009765625F));
    CHECK(std::signbit(load_element(view, 1)));
    CHECK(std::isinf(load_element(view, 2)));
  }
}

}  // namespace format_test
