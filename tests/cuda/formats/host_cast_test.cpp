// 8-bit casts, clipping by value and stochastic rounding of the host implementation. Between every
// two neighbours of a format is one midpoint, and rounding is monotonic: the midpoints and their
// neighbours are a complete test.

#include <doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/base/philox.hpp"
#include "cuda/host/base/isa.hpp"
#include "cuda/host/operations.hpp"

namespace {

using namespace zeroproof;
namespace host = zeroproof::cuda::host;

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }

std::vector<std::uint8_t> to_e4m3(const Exec& exec, const std::vector<float>& values) {
  std::vector<e4m3> out(values.size());
  host::cast_to_e4m3(exec, values, out);
  std::vector<std::uint8_t> bytes;
  for (const e4m3 value : out) bytes.push_back(value.bits);
  return bytes;
}

std::vector<std::uint8_t> to_e5m2(const Exec& exec, const std::vector<float>& values) {
  std::vector<e5m2> out(values.size());
  host::cast_to_e5m2(exec, values, out);
  std::vector<std::uint8_t> bytes;
  for (const e5m2 value : out) bytes.push_back(value.bits);
  return bytes;
}

/// Magnitude of a pattern by the definition of its format.
float value_of(int pattern, int fraction_bits, int bias) {
  const int exponent = pattern >> fraction_bits;
  const int fraction = pattern & ((1 << fraction_bits) - 1);
  if (exponent == 0) return std::ldexp(static_cast<float>(fraction), 1 - bias - fraction_bits);
  return std::ldexp(static_cast<float>((1 << fraction_bits) + fraction),
                    exponent - bias - fraction_bits);
}

template <class Cast>
void check_rounding(Cast cast, int fraction_bits, int bias, int most) {
  std::vector<float> values;
  std::vector<std::uint8_t> want;
  const auto expect = [&](float value, int pattern) {
    values.push_back(value);
    want.push_back(static_cast<std::uint8_t>(pattern));
    values.push_back(-value);
    want.push_back(static_cast<std::uint8_t>(pattern | 0x80));
  };
  for (int pattern = 0; pattern < most; ++pattern) {
    const float low = value_of(pattern, fraction_bits, bias);
    const float high = value_of(pattern + 1, fraction_bits, bias);
    const float middle = (low + high) / 2;
    expect(low, pattern);
    expect(middle, pattern % 2 == 0 ? pattern : pattern + 1);
    expect(std::nextafter(middle, 0.0F), pattern);
    expect(std::nextafter(middle, inf), pattern + 1);
  }
  const float largest = value_of(most, fraction_bits, bias);
  for (const float value : {largest, std::nextafter(largest, inf), largest * 1.0625F, largest * 2,
                            0x1p127F, std::numeric_limits<float>::max(), inf}) {
    expect(value, most);
  }
  expect(0x1p-149F, 0);
  expect(0x1p-126F, 0);
  for (const Isa isa : host::supported_isas()) {
    CAPTURE(host::name(isa));
    CHECK(cast(Exec{1, isa}, values) == want);
    for (const std::uint32_t nan : {0x7FC00000U, 0xFFC00000U, 0x7F800001U, 0xFFFFFFFFU}) {
      const std::vector<float> nans(21, std::bit_cast<float>(nan));
      for (const std::uint8_t byte : cast(Exec{1, isa}, nans)) CHECK((byte & 0x7F) > most);
    }
  }
}

}  // namespace

TEST_CASE("fp8 by hand") {
  const Exec exec{};
  CHECK(to_e4m3(exec,
                {1.0F, -2.0F, 448.0F, 464.0F, 0x1p-9F, 0x1p-10F, 0x1.8p-9F, -0.0F, 17.0F, 19.0F}) ==
        std::vector<std::uint8_t>{0x38, 0xC0, 0x7E, 0x7E, 0x01, 0x00, 0x02, 0x80, 0x58, 0x5A});
  CHECK(to_e5m2(exec, {1.0F, -2.0F, 57344.0F, 65536.0F, 0x1p-16F, 0x1p-17F, 0x1.8p-16F, -0.0F, 9.0F,
                       11.0F}) ==
        std::vector<std::uint8_t>{0x3C, 0xC0, 0x7B, 0x7B, 0x01, 0x00, 0x02, 0x80, 0x48, 0x4A});
}

TEST_CASE("e4m3: every midpoint, its neighbours, saturation and NaN") {
  check_rounding(to_e4m3, 3, 7, 0x7E);
}
TEST_CASE("e5m2: every midpoint, its neighbours, saturation and NaN") {
  check_rounding(to_e5m2, 2, 15, 0x7B);
}

TEST_CASE("widening from 8 bits: every pattern, in vectors and tails") {
  for (const Isa isa : host::supported_isas()) {
    for (const std::size_t numel : {std::size_t{1}, std::size_t{64}}) {
      for (int pattern = 0; pattern < 256; ++pattern) {
        const auto byte = static_cast<std::uint8_t>(pattern);
        std::vector<float> wide4(numel), wide5(numel);
        host::widen_e4m3({1, isa}, std::vector<e4m3>(numel, {byte}), wide4);
        host::widen_e5m2({1, isa}, std::vector<e5m2>(numel, {byte}), wide5);
        const float sign = pattern >= 128 ? -1.0F : 1.0F;
        const int rest = pattern % 128;
        CAPTURE(pattern);
        for (const float got : wide4) {
          if (rest == 0x7F) {
            CHECK(std::isnan(got));
          } else {
            CHECK(bits(got) == bits(sign * value_of(rest, 3, 7)));
          }
        }
        for (const float got : wide5) {
          if (rest > 0x7C) {
            CHECK(std::isnan(got));
          } else {
            CHECK(bits(got) == bits(sign * (rest == 0x7C ? inf : value_of(rest, 2, 15))));
          }
        }
      }
    }
  }
}

TEST_CASE("clip_value keeps the bits of values inside the interval") {
  const std::vector<float> in = {
      1.0F, 1.5F, -1.5F, -1.0F, 0.0F,         -0.0F, 0x1p-149F, inf,
      -inf, 0.5F, -0.5F, 2.0F,  not_a_number, -2.0F, 1.0F,      std::nextafter(1.0F, 2.0F)};
  const std::vector<float> want = {1.0F,  1.0F, -1.0F, -1.0F, 0.0F,         -0.0F, 0x1p-149F, 1.0F,
                                   -1.0F, 0.5F, -0.5F, 1.0F,  not_a_number, -1.0F, 1.0F,      1.0F};
  for (const Isa isa : host::supported_isas()) {
    for (const std::size_t begin :
         {0U, 3U, 8U}) {  // so that every value is in a vector and in the tail
      std::vector<float> values(in.begin() + static_cast<std::ptrdiff_t>(begin), in.end());
      host::clip_value({1, isa}, 1.0F, values);
      for (std::size_t i = 0; i < values.size(); ++i)
        CHECK(bits(values[i]) == bits(want[begin + i]));
    }
  }
}

TEST_CASE("stochastic rounding: the word of each global index decides") {
  const Philox words(0x0123456789ABCDEFULL, stochastic_rounding_stream, 0x9ABCDEF0U);
  for (const Isa isa : host::supported_isas()) {
    for (const std::uint64_t first :
         {0ULL, 1ULL, 2ULL, 3ULL, 1021ULL, 0x3FFFFFFFFULL, 0xFFFFFFFFFFULL}) {
      for (const std::size_t numel :
           {std::size_t{1}, std::size_t{5}, std::size_t{257}, std::size_t{40003}}) {
        std::vector<float> source(numel);
        for (std::size_t i = 0; i < numel; ++i) {
          source[i] = std::bit_cast<float>(0x3F800000U + static_cast<std::uint32_t>(i) * 0x1357U);
        }
        std::vector<bf16> target(numel);
        // Only the low word of the step counts.
        host::stochastic_cast_to_bf16({2, isa}, {0x0123456789ABCDEFULL, 0x55559ABCDEF0ULL, first},
                                      source, target);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < numel; ++i) {
          const std::uint32_t sum = bits(source[i]) + (words.word(first + i) >> 16);
          if (target[i].bits != sum >> 16) ++wrong;
        }
        CAPTURE(first);
        CAPTURE(numel);
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("stochastic rounding: exact values never move; NaN, infinities and overflow") {
  for (const Isa isa : host::supported_isas()) {
    std::vector<float> source;
    for (std::uint32_t pattern = 0; pattern < 0x10000U; ++pattern) {
      source.push_back(std::bit_cast<float>(pattern << 16));
    }
    std::vector<bf16> target(source.size());
    host::stochastic_cast_to_bf16({1, isa}, {7, 1, 0}, source, target);
    std::size_t wrong = 0;
    for (std::uint32_t pattern = 0; pattern < 0x10000U; ++pattern) {
      const bool nan = (pattern & 0x7FFFU) > 0x7F80U;
      const std::uint16_t got = target[pattern].bits;
      if (nan ? (got & 0x7FFFU) <= 0x7F80U : got != pattern) ++wrong;
    }
    CHECK(wrong == 0);
    // A NaN whose upper half alone would be an infinity remains NaN, and none wraps around to a
    // number.
    std::vector<float> special(64, std::bit_cast<float>(0x7F800001U));
    for (std::size_t i = 32; i < special.size(); ++i)
      special[i] = std::bit_cast<float>(0xFFFFFFFFU);
    target.resize(special.size());
    host::stochastic_cast_to_bf16({1, isa}, {7, 1, 0}, special, target);
    for (const bf16 got : target) CHECK((got.bits & 0x7FFFU) > 0x7F80U);
    // Above the largest bf16 some values become infinity; all others are rounded.
    std::vector<float> large(64, -std::numeric_limits<float>::max());
    host::stochastic_cast_to_bf16({1, isa}, {7, 1, 0}, large, target);
    bool infinite = false;
    for (const bf16 got : target) {
      CHECK((got.bits == 0xFF7F || got.bits == 0xFF80));
      infinite = infinite || got.bits == 0xFF80;
    }
    CHECK(infinite);
  }
}
