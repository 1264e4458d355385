// The conversions against an independent definition: a table of all values of the 16-bit format,
// made with ldexp, in which the nearest one is found with exact fp64 distances.
#include "common/base/float_formats.hpp"

#include <doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <vector>

#include "common/base/parallel_for.hpp"

namespace float_formats_test {

using namespace zeroproof;

namespace {

constexpr std::uint32_t fp32_infinity = 0x7F800000;

struct SmallFormat {
  const char* name;
  int fraction_bits;
  int bias;
  std::uint16_t infinity;
  std::uint16_t (*round)(float);
  float (*widen)(std::uint16_t);
};

const SmallFormat bf16_format = {"bf16",
                                 7,
                                 127,
                                 0x7F80,
                                 [](float x) { return to_bf16(x).bits; },
                                 [](std::uint16_t bits) { return to_float(bf16{bits}); }};
const SmallFormat fp16_format = {"fp16",
                                 10,
                                 15,
                                 0x7C00,
                                 [](float x) { return to_fp16(x).bits; },
                                 [](std::uint16_t bits) { return to_float(fp16{bits}); }};

/// Magnitude of a pattern below or at infinity; infinity represents the next value of an unbounded exponent
/// range, because rounding happens before overflow is detected.
double value_of(const SmallFormat& format, std::uint32_t pattern) {
  const std::uint32_t implicit = 1U << format.fraction_bits;
  const std::uint32_t fraction = pattern & (implicit - 1);
  const int exponent = static_cast<int>(pattern >> format.fraction_bits);
  return std::ldexp(exponent == 0 ? fraction : fraction | implicit,
                    std::max(exponent, 1) - format.bias - format.fraction_bits);
}

std::vector<double> table_of(const SmallFormat& format) {
  std::vector<double> values;
  for (std::uint32_t pattern = 0; pattern <= format.infinity; ++pattern)
    values.push_back(value_of(format, pattern));
  return values;
}

/// Finds the nearest pattern of a magnitude. Magnitudes must not decrease from call to call: the
/// search continues from the last position.
class Nearest {
 public:
  Nearest(const std::vector<double>& values, double start)
      : values_(values),
        low_(static_cast<std::size_t>(std::upper_bound(values.begin(), values.end(), start) -
                                      values.begin() - 1)) {}

  std::uint16_t operator()(double x) {
    while (low_ + 1 < values_.size() && values_[low_ + 1] <= x) ++low_;
    if (low_ + 1 == values_.size()) return static_cast<std::uint16_t>(low_);
    const double below =
        x - values_[low_];  // exact: both ends have few bits and nearly the same exponent
    const double above = values_[low_ + 1] - x;
    const bool up = above < below || (above == below && low_ % 2 == 1);
    return static_cast<std::uint16_t>(up ? low_ + 1 : low_);
  }

 private:
  const std::vector<double>& values_;
  std::size_t low_;
};

float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

/// Wrong results among the magnitudes begin, begin + step, .. below end, each with both signs.
std::int64_t mistakes(const SmallFormat& format, const std::vector<double>& values,
                      std::uint64_t begin, std::uint64_t end, std::uint64_t step) {
  std::int64_t wrong = 0;
  const float first =
      from_bits(static_cast<std::uint32_t>(std::min<std::uint64_t>(begin, fp32_infinity)));
  Nearest nearest(values, first);
  for (std::uint64_t m = begin; m < end; m += step) {
    const auto bits = static_cast<std::uint32_t>(m);
    std::uint16_t plus = 0x7FFF;  // R9: NaNs of both signs become this one
    std::uint16_t minus = 0x7FFF;
    if (bits <= fp32_infinity) {
      plus = nearest(from_bits(bits));
      minus = static_cast<std::uint16_t>(plus | 0x8000);
    }
    wrong += format.round(from_bits(bits)) == plus ? 0 : 1;
    wrong += format.round(from_bits(bits | 0x80000000U)) == minus ? 0 : 1;
  }
  return wrong;
}

std::int64_t mistakes_around(const SmallFormat& format, const std::vector<double>& values,
                             std::uint32_t bits) {
  const std::uint32_t begin = bits < 2 ? 0 : bits - 2;
  return mistakes(format, values, begin, std::uint64_t{bits} + 3, 1);
}

void check_all_inputs(const SmallFormat& format, std::uint64_t step) {
  CAPTURE(format.name);
  const std::vector<double> values = table_of(format);
  constexpr std::int64_t blocks = 256;
  std::atomic<std::int64_t> wrong{0};
  parallel_for(available_cores(), blocks, [&](std::int64_t block) {
    // The first multiple of step in this block of 2^23 magnitudes, so that blocks do not change the
    // visited values.
    const std::uint64_t begin = static_cast<std::uint64_t>(block) << 23;
    wrong += mistakes(format, values, (begin + step - 1) / step * step,
                      begin + (std::uint64_t{1} << 23), step);
  });
  CHECK(wrong == 0);
}

void check_edges(const SmallFormat& format) {
  CAPTURE(format.name);
  const std::vector<double> values = table_of(format);
  std::int64_t wrong = 0;
  for (std::uint32_t exponent = 0; exponent < 256; ++exponent)
    wrong += mistakes_around(format, values, exponent << 23);
  wrong += mistakes_around(format, values, 0x7FFFFFFC);  // the last NaNs
  CHECK(wrong == 0);
  for (std::size_t i = 0; i + 1 < values.size(); ++i) {
    const double middle = (values[i] + values[i + 1]) / 2;
    const auto tie = static_cast<float>(middle);
    REQUIRE(static_cast<double>(tie) == middle);
    wrong += mistakes_around(format, values, std::bit_cast<std::uint32_t>(tie));
    wrong += mistakes_around(format, values,
                             std::bit_cast<std::uint32_t>(static_cast<float>(values[i])));
  }
  CHECK(wrong == 0);
}

void check_patterns(const SmallFormat& format) {
  CAPTURE(format.name);
  std::int64_t wrong_value = 0;
  std::int64_t wrong_return = 0;
  for (std::uint32_t pattern = 0; pattern <= 0xFFFF; ++pattern) {
    const auto bits = static_cast<std::uint16_t>(pattern);
    const std::uint32_t magnitude = pattern & 0x7FFFU;
    const float value = format.widen(bits);
    const std::uint32_t widened = std::bit_cast<std::uint32_t>(value);
    const bool is_nan = magnitude > format.infinity;
    bool right = (widened >> 31) == (pattern >> 15);  // the sign is carried over, also of zeros
    if (is_nan) {
      right = std::isnan(value);
    } else if (magnitude == format.infinity) {
      right = right && std::isinf(value);
    } else {
      right = right && std::abs(static_cast<double>(value)) == value_of(format, magnitude);
    }
    wrong_value += right ? 0 : 1;
    wrong_return += format.round(value) == (is_nan ? 0x7FFF : pattern) ? 0 : 1;
  }
  CHECK(wrong_value == 0);
  CHECK(wrong_return == 0);
}

}  // namespace

TEST_CASE("float formats: all 65536 patterns widen to their value and round back") {
  check_patterns(bf16_format);
  check_patterns(fp16_format);
}

TEST_CASE(
    "float formats: rounding at every exponent, value and midpoint, and two floats to both sides") {
  check_edges(bf16_format);
  check_edges(fp16_format);
}

TEST_CASE("float formats: rounding of every 257th magnitude with both signs") {
  check_all_inputs(bf16_format, 257);
  check_all_inputs(fp16_format, 257);
}

TEST_CASE("slow: float formats: rounding of all 2^32 inputs") {
  check_all_inputs(bf16_format, 1);
  check_all_inputs(fp16_format, 1);
}

// The table above is a program as well; these values are from the standards.
TEST_CASE("float formats: values by hand") {
  CHECK(to_fp16(65504.0F).bits == 0x7BFF);
  CHECK(to_fp16(65519.996F).bits == 0x7BFF);
  CHECK(to_fp16(65520.0F).bits == 0x7C00);
  CHECK(to_fp16(-1e30F).bits == 0xFC00);
  CHECK(to_fp16(0x1p-24F).bits == 0x0001);
  CHECK(to_fp16(0x1p-25F).bits == 0x0000);
  CHECK(to_fp16(-0x1.000002p-25F).bits == 0x8001);
  CHECK(to_fp16(0x3p-25F).bits == 0x0002);
  CHECK(to_fp16(1.0F / 3).bits == 0x3555);
  CHECK(to_bf16(1.0F).bits == 0x3F80);
  CHECK(to_bf16(0x1.01p0F).bits == 0x3F80);
  CHECK(to_bf16(0x1.03p0F).bits == 0x3F82);
  CHECK(to_bf16(0x1.FEp127F).bits == 0x7F7F);
  CHECK(to_bf16(0x1.FFp127F).bits == 0x7F80);
  CHECK(to_bf16(0x1p-133F).bits == 0x0001);
  CHECK(to_bf16(-0x1p-134F).bits == 0x8000);
  CHECK(to_float(fp16{0x0001}) == 0x1p-24F);
  CHECK(to_float(fp16{0x7BFF}) == 65504.0F);
  CHECK(to_float(bf16{0x0001}) == 0x1p-133F);
}

TEST_CASE("float formats: all 256 patterns of the 8-bit formats widen to their value") {
  // By definition: (-1)^sign * 2^(max(exponent, 1) - bias) * (hidden bit + fraction).
  const auto defined = [](int bits, int exponent_bits, int fraction_bits) {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
    const int fraction =
        (bits & ((1 << fraction_bits) - 1)) + (exponent > 0 ? 1 << fraction_bits : 0);
    const double magnitude = std::ldexp(fraction, std::max(exponent, 1) - bias - fraction_bits);
    return bits >> 7 != 0 ? -magnitude : magnitude;
  };
  const auto same = [](float got, double expected) {
    return static_cast<double>(got) == expected && std::signbit(got) == std::signbit(expected);
  };
  for (int bits = 0; bits < 256; ++bits) {
    CAPTURE(bits);
    const float from_e4m3 = to_float(e4m3{static_cast<std::uint8_t>(bits)});
    CHECK(((bits & 0x7F) == 0x7F ? std::isnan(from_e4m3) : same(from_e4m3, defined(bits, 4, 3))));
    const float from_e5m2 = to_float(e5m2{static_cast<std::uint8_t>(bits)});
    if ((bits & 0x7F) > 0x7C) {
      CHECK(std::isnan(from_e5m2));
    } else if ((bits & 0x7F) == 0x7C) {
      CHECK((std::isinf(from_e5m2) && std::signbit(from_e5m2) == (bits > 127)));
    } else {
      CHECK(same(from_e5m2, defined(bits, 5, 2)));
    }
  }
  CHECK(to_float(e4m3{0x7E}) == 448.0F);
  CHECK(to_float(e5m2{0x7B}) == 57344.0F);
}

}  // namespace float_formats_test
