#pragma once
// What both twins of fake quantization and histograms must answer: numbers that can be worked out by hand.

#include <doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "common/contracts/fake_quantize.hpp"
#include "common/contracts/histogram.hpp"
#include "tests/cuda/expect_error.hpp"

namespace zeroproof::tests {

inline std::vector<std::uint32_t> amax_bits(const std::vector<float>& magnitudes) {
  std::vector<std::uint32_t> bits;
  for (const float magnitude : magnitudes) bits.push_back(std::bit_cast<std::uint32_t>(magnitude));
  return bits;
}

inline void check_fake_quantize_by_hand(FakeQuantizeFn* twin, QuantizeIntegerFn* codes_of, const Exec& exec) {
  const auto faked = [&](const FakeQuantization& options, const std::vector<float>& values,
                         const std::vector<float>& amax) {
    std::vector<float> target(values.size(), 99.0F);
    twin(exec, options, 0, values, amax_bits(amax), target);
    return target;
  };
  const std::vector<float> values = {0.5F, 1.5F, -2.5F, -0.25F, 126.5F, 200, -200, -1e30F, 1e-40F};
  FakeQuantization options{one_block(1, 9)};
  CHECK(faked(options, values, {127}) == std::vector<float>{0, 2, -2, 0, 126, 127, -127, -127, 0});
  CHECK(std::signbit(faked(options, values, {127})[3]));
  std::vector<std::int8_t> codes(9);
  options.narrow = false;
  codes_of(exec, options, 0, values, amax_bits({127}), codes);
  CHECK(codes == std::vector<std::int8_t>{0, 2, -2, 0, 126, 127, -128, -128, 0});
  codes_of(exec, options, 0, values, amax_bits({0x1p-24F}), codes);
  CHECK(codes == std::vector<std::int8_t>(9, 0));
  options = {one_block(1, 3)};
  const std::vector<float> tiny = faked(options, {1, -1, NAN}, {0x1p-24F});
  CHECK(tiny[0] == 0);
  CHECK_FALSE(std::signbit(tiny[1]));
  CHECK(std::isnan(tiny[2]));
  CHECK(std::isnan(faked(options, {1, 0, 2}, {INFINITY})[0]));
  // Two bits have the codes -1, 0 and 1: a column stands for its amax or nothing.
  options = {{2, 3, 2, 1}, FakeFormat::integer, 2};
  CHECK(faked(options, {1, 2, 3, -4, 5, 6}, {1, 2, 12}) == std::vector<float>{1, 2, 0, -1, 2, 0});
  options = {one_block(1, 4), FakeFormat::e4m3};
  CHECK(faked(options, {17, -19, 1000, 460}, {448}) == std::vector<float>{16, -20, 448, 448});
  CHECK(faked(options, {1, 1, 0.5F, 0}, {0x1p-25F}) == faked(options, {1, 1, 0.5F, 0}, {1}));
  options.format = FakeFormat::e5m2;
  CHECK(faked(options, {9, -11, 1e6F, 3}, {57344}) == std::vector<float>{8, -12, 57344, 3});
}

inline void check_fake_quantize_refusals(FakeQuantizeFn* twin, QuantizeIntegerFn* codes_of,
                                         const Exec& exec) {
  const std::vector<float> values = {1, 2};
  std::vector<float> target = {7, 7};
  std::vector<std::int8_t> codes = {7, 7};
  const std::vector<std::uint32_t> amax = amax_bits({1});
  FakeQuantization options{one_block(1, 2)};
  expect_error(ErrorCode::invalid_argument, [&] { twin(exec, options, 1, values, amax, target); });
  expect_error(ErrorCode::invalid_argument, [&] { twin(exec, options, 0, values, {}, target); });
  options.bits = 1;
  expect_error(ErrorCode::invalid_argument, [&] { twin(exec, options, 0, values, amax, target); });
  options.bits = 9;
  expect_error(ErrorCode::invalid_argument, [&] { codes_of(exec, options, 0, values, amax, codes); });
  CHECK(target == std::vector<float>{7, 7});
  CHECK(codes == std::vector<std::int8_t>{7, 7});
}

inline void check_histogram_by_hand(HistogramCountFn* twin, HistogramWidenFn* widen, const Exec& exec) {
  std::vector<float> values = {0, -0.0F, 0.49F, 0.5F, -0.5F, 127.9F, 128, -1e30F, NAN, -INFINITY};
  std::vector<std::uint64_t> count(256 + histogram_extra, 1);
  twin(exec, 0.5F, HistogramEnd::open, values, count);
  CHECK(std::vector<std::uint64_t>{count[0], count[1], count[255], count[256], count[257]} ==
        std::vector<std::uint64_t>{4, 3, 2, 3, 3});
  twin(exec, 0.3F, HistogramEnd::closed, {values.data(), 8}, count);
  CHECK(count[0] == 6);    // the zeros
  CHECK(count[1] == 6);    // 0.49, 0.5 and -0.5
  CHECK(count[255] == 5);  // 127.9, 128 and 1e30
  CHECK(count[256] == 3);
  widen(exec, 8, count);
  CHECK(count[0] == 256 + 6 + 8);  // one in each, six open and eight closed
  CHECK(count[1] == 0);
  CHECK(count[256] == 3);
  // More than a device has threads, so that each sees several, and in several bins.
  values.assign(700001, 3.0F);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % 350003 > 200000) values[i] = 1.0F;
  }
  std::vector<std::uint64_t> many(300 + histogram_extra, 0);
  twin(exec, 0.01F, HistogramEnd::open, values, many);
  const std::uint64_t ones = 150002 + 149997;
  CHECK(many[100] == ones);  // fp32(0.01) is a little less than 0.01: 1 is above 100 bins, 3 above 300
  CHECK(many[300] == 700001 - ones);
}

}  // namespace zeroproof::tests
