#pragma once
// Expected results of both implementations of calibration and fake quantization: numbers that can
// be computed by hand.

#include <doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "common/contracts/calibration.hpp"
#include "common/contracts/fake_quantize.hpp"
#include "common/contracts/histogram.hpp"
#include "tests/cuda/expect_error.hpp"

namespace zeroproof::tests {

inline std::vector<std::uint32_t> amax_bits(const std::vector<float>& magnitudes) {
  std::vector<std::uint32_t> bits;
  for (const float magnitude : magnitudes) bits.push_back(std::bit_cast<std::uint32_t>(magnitude));
  return bits;
}

inline void check_fake_quantize_by_hand(FakeQuantizeFn* implementation, QuantizeIntegerFn* codes_of,
                                        const Exec& exec) {
  const auto faked = [&](const FakeQuantization& options, const std::vector<float>& values,
                         const std::vector<float>& amax) {
    std::vector<float> target(values.size(), 99.0F);
    implementation(exec, options, 0, values, amax_bits(amax), target);
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
  // Two bits have the codes -1, 0 and 1: a column is its amax or 0.
  options = {{2, 3, 2, 1}, FakeFormat::integer, 2};
  CHECK(faked(options, {1, 2, 3, -4, 5, 6}, {1, 2, 12}) == std::vector<float>{1, 2, 0, -1, 2, 0});
  options = {one_block(1, 4), FakeFormat::e4m3};
  CHECK(faked(options, {17, -19, 1000, 460}, {448}) == std::vector<float>{16, -20, 448, 448});
  CHECK(faked(options, {1, 1, 0.5F, 0}, {0x1p-25F}) == faked(options, {1, 1, 0.5F, 0}, {1}));
  options.format = FakeFormat::e5m2;
  CHECK(faked(options, {9, -11, 1e6F, 3}, {57344}) == std::vector<float>{8, -12, 57344, 3});
}

inline void check_fake_quantize_refusals(FakeQuantizeFn* implementation,
                                         QuantizeIntegerFn* codes_of, const Exec& exec) {
  const std::vector<float> values = {1, 2};
  std::vector<float> target = {7, 7};
  std::vector<std::int8_t> codes = {7, 7};
  const std::vector<std::uint32_t> amax = amax_bits({1});
  FakeQuantization options{one_block(1, 2)};
  expect_error(ErrorCode::invalid_argument,
               [&] { implementation(exec, options, 1, values, amax, target); });
  expect_error(ErrorCode::invalid_argument,
               [&] { implementation(exec, options, 0, values, {}, target); });
  options.bits = 1;
  expect_error(ErrorCode::invalid_argument,
               [&] { implementation(exec, options, 0, values, amax, target); });
  options.bits = 9;
  expect_error(ErrorCode::invalid_argument,
               [&] { codes_of(exec, options, 0, values, amax, codes); });
  CHECK(target == std::vector<float>{7, 7});
  CHECK(codes == std::vector<std::int8_t>{7, 7});
}

inline void check_histogram_by_hand(HistogramCountFn* implementation, HistogramWidenFn* widen,
                                    const Exec& exec) {
  std::vector<float> values = {0, -0.0F, 0.49F, 0.5F, -0.5F, 127.9F, 128, -1e30F, NAN, -INFINITY};
  std::vector<std::uint64_t> count(256 + histogram_extra, 1);
  implementation(exec, 0.5F, HistogramEnd::open, values, count);
  CHECK(std::vector<std::uint64_t>{count[0], count[1], count[255], count[256], count[257]} ==
        std::vector<std::uint64_t>{4, 3, 2, 3, 3});
  implementation(exec, 0.3F, HistogramEnd::closed, {values.data(), 8}, count);
  CHECK(count[0] == 6);    // the zeros
  CHECK(count[1] == 6);    // 0.49, 0.5 and -0.5
  CHECK(count[255] == 5);  // 127.9, 128 and 1e30
  CHECK(count[256] == 3);
  widen(exec, 8, count);
  CHECK(count[0] == 256 + 6 + 8);  // one in each, six open and eight closed
  CHECK(count[1] == 0);
  CHECK(count[256] == 3);
  // More values than a device has threads, so that each thread processes several, in several bins.
  values.assign(700001, 3.0F);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % 350003 > 200000) values[i] = 1.0F;
  }
  std::vector<std::uint64_t> many(300 + histogram_extra, 0);
  implementation(exec, 0.01F, HistogramEnd::open, values, many);
  const std::uint64_t ones = 150002 + 149997;
  CHECK(many[100] ==
        ones);  // fp32(0.01) is a little less than 0.01: 1 is above 100 bins, 3 above 300
  CHECK(many[300] == 700001 - ones);
}

inline void check_exponent_by_hand(HistogramExponentFn* implementation) {
  CHECK(implementation(0, 2048) == -149);
  CHECK(implementation(amax_bits({1})[0], 2048) == -10);  // 2048 * 2^-11 is 1, and not above it
  CHECK(implementation(amax_bits({1})[0] - 1, 2048) == -11);
  CHECK(implementation(amax_bits({300})[0], 300) == 1);
  CHECK(implementation(0x7F7FFFFFU, 256) == 120);
  CHECK(implementation(255, 256) == -149);  // in units of the smallest number
  CHECK(implementation(256, 256) == -148);
  expect_error(ErrorCode::invalid_argument, [&] { implementation(0x7F800000U, 256); });
  expect_error(ErrorCode::invalid_argument, [&] { implementation(0, 255); });
}

inline std::vector<std::uint64_t> counts_with(
    const std::vector<std::pair<std::size_t, std::uint64_t>>& filled) {
  std::vector<std::uint64_t> count(256, 0);
  for (const auto& [bin, elements] : filled) count[bin] = elements;
  return count;
}

inline void check_amax_of_counts_by_hand(PercentileAmaxFn* percentile, EntropyAmaxFn* entropy,
                                         const Exec& exec) {
  const std::vector<std::uint64_t> count = counts_with({{0, 90}, {10, 9}, {200, 1}});
  CHECK(percentile(count, 0.5F, 0) == 0);
  CHECK(percentile(count, 0.5F, 90) == 0);
  CHECK(percentile(count, 0.5F, 90.5) == 5);
  CHECK(percentile(count, 0.5F, 99.01) == 100);
  CHECK(percentile(count, 0.5F, 100) == 100);
  std::vector<std::uint64_t> many(1000, 1);  // four bins or so in the run of a thread
  CHECK(percentile(many, 1, 99.85) == 998);
  CHECK(percentile(many, 1, 50) == 499);
  many[3] = (std::uint64_t{1} << 53) - 1000;
  CHECK(percentile(many, 1, 100) == 999);
  many[4] = 2;
  expect_error(ErrorCode::invalid_argument, [&] { percentile(many, 1, 100); });
  many[4] = ~std::uint64_t{0};  // whose sum would become small again
  expect_error(ErrorCode::invalid_argument, [&] { percentile(many, 1, 100); });
  expect_error(ErrorCode::invalid_argument, [&] { entropy(exec, many, 1, 8); });
  expect_error(ErrorCode::invalid_argument, [&] { percentile(counts_with({}), 1, 99); });
  expect_error(ErrorCode::invalid_argument, [&] { percentile(count, 1, NAN); });
  // No clip loses anything; then from 213 bins on two different counts are one level; then a lonely
  // outlier.
  CHECK(entropy(exec, counts_with({{4, 8}, {9, 3}}), 0.25F, 8) == 64);
  CHECK(entropy(exec, counts_with({{4, 8}, {5, 3}}), 1, 8) == 213);
  CHECK(entropy(exec, counts_with({{4, 8}, {250, 1}}), 1, 8) == 256);
  CHECK(entropy(exec, counts_with({{0, 1000}}), 1, 8) == 0);
  CHECK(entropy(exec, std::vector<std::uint64_t>(256, 1), 1, 8) ==
        256);  // one clipped element is one bin too many
  expect_error(ErrorCode::invalid_argument, [&] { entropy(exec, counts_with({}), 1, 8); });
  expect_error(ErrorCode::invalid_argument, [&] { entropy(exec, count, 1, 9); });
}

inline void check_clips_by_hand(ClipErrorsFn* implementation, ClipOfErrorsFn* choose,
                                GradNormFinishFn* finish, const Exec& exec) {
  // Codes -1, 0, 1 of 2 bits, two columns. amax 4, values 3 and -3: the candidate 3 has no error.
  const FakeQuantization options{{2, 2, 2, 1}, FakeFormat::integer, 2};
  const std::vector<std::uint32_t> amax = amax_bits({4, 8});
  const std::vector<float> values = {3, 8, -3, 0};
  std::vector<NormLimbs> errors(2 * num_clips);
  implementation(exec, options, 0, values, amax, errors);
  CHECK(finish(errors[24 - first_clip]) == 0);               // 4 * 24 / 32
  CHECK(finish(errors[32 - first_clip]) == std::sqrt(2.0));  // 3 becomes 4
  CHECK(finish(errors[0]) == std::sqrt(8.0));                // 1 is the largest value
  CHECK(finish(errors[num_clips]) == 6);
  std::vector<std::uint32_t> clipped(2);
  choose(amax, errors, clipped);
  CHECK(clipped == amax_bits({3, 8}));
  implementation(exec, options, 2, {values.data() + 2, 2}, amax,
                 errors);  // the second row again
  CHECK(finish(errors[0]) == std::sqrt(12.0));
  CHECK(finish(errors[num_clips]) == 6);
  errors[num_clips + 3].nan_count = 1;
  choose(amax, errors, clipped);
  CHECK(clipped == amax_bits({3, 8}));
  std::vector<NormLimbs> equal(2 * num_clips);
  choose(amax, equal, clipped);
  CHECK(clipped == amax_bits({1, 2}));  // the first of 25
  const std::vector<float> wrong = {NAN, INFINITY};
  implementation(exec, options, 0, wrong, amax, equal);
  CHECK(equal[0].nan_count == 1);
  CHECK(equal[num_clips].inf_count == 1);
  // More values than a device has threads, so that each adds to several sets of limbs.
  std::vector<float> many;
  for (int row = 0; row < 20000; ++row) many.insert(many.end(), {3, 8});
  std::vector<NormLimbs> sums(2 * num_clips);
  implementation(exec, {{20000, 2, 20000, 1}, FakeFormat::integer, 2}, 0, many, amax, sums);
  CHECK(finish(sums[0]) == std::sqrt(4.0 * 20000));
  CHECK(finish(sums[24 - first_clip]) == 0);
  CHECK(finish(sums[num_clips]) == std::sqrt(36.0 * 20000));
  CHECK(finish(sums[2 * num_clips - 1]) == 0);
  // Limbs without space for one more deposit, as a sum over many ranges may leave them.
  std::vector<NormLimbs> alone(2 * num_clips), full(2 * num_clips);
  for (NormLimbs& limbs : full) limbs.limbs[9] = ~std::uint64_t{0};
  implementation(exec, options, 0, values, amax, alone);
  implementation(exec, options, 0, values, amax, full);
  for (std::size_t set = 0; set < full.size(); ++set) {
    NormLimbs expected = alone[set];  // and those 64 bits, carried
    expected.limbs[9] += 0xFFFFFFFFU;
    expected.limbs[10] += 0xFFFFFFFFU;
    CHECK(finish(full[set]) == finish(expected));
  }
  equal.pop_back();
  expect_error(ErrorCode::invalid_argument,
               [&] { implementation(exec, options, 0, values, amax, equal); });
  expect_error(ErrorCode::invalid_argument, [&] { choose(amax, equal, clipped); });
}

inline void check_smooth_by_hand(SmoothScalesFn* implementation, const Exec& exec) {
  const std::vector<std::uint32_t> inputs = amax_bits({4, 0x1p-31F, 1e-6F, 1e6F, INFINITY});
  const std::vector<std::uint32_t> weights = amax_bits({9, 1, 1, 1, 1});
  std::vector<float> scale(5);
  implementation(exec, 1, inputs, weights, scale);
  CHECK(scale == std::vector<float>{0.25F, 1, 1e4F, 1e-4F, 1});
  implementation(exec, 0, inputs, weights, scale);
  CHECK(scale == std::vector<float>{9, 1, 1, 1, 1});
  implementation(exec, 0.5, inputs, weights, scale);
  CHECK(scale[0] == 1.5F);  // sqrt(9) / sqrt(4), by logarithms and rounded once
  const std::vector<std::uint32_t> none(5, 0);
  implementation(exec, 0.5, inputs, none, scale);
  CHECK(scale[0] == 1e-4F);
  expect_error(ErrorCode::invalid_argument,
               [&] { implementation(exec, NAN, inputs, weights, scale); });
  expect_error(ErrorCode::invalid_argument, [&] { implementation(exec, 1, inputs, {}, scale); });
}

}  // namespace zeroproof::tests
