// Histograms and the amax computed from them, by hand.

#include <bit>
#include <cmath>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/philox.hpp"
#include "doctest.h"
#include "reference/operations.hpp"

namespace calibration_test {

using namespace zeroproof;

namespace {

std::uint32_t amax_bits(float value) { return std::bit_cast<std::uint32_t>(value); }

/// 256 bins, some of them given as (bin, count).
std::vector<std::uint64_t> bins_with(
    const std::vector<std::pair<std::size_t, std::uint64_t>>& given) {
  std::vector<std::uint64_t> count(256, 0);
  for (const auto& [bin, elements] : given) count[bin] = elements;
  return count;
}

/// The histogram of a batch with the width of its own amax.
struct Doubling {
  int w = -149;
  std::uint32_t amax = 0;
  std::vector<std::uint64_t> count = std::vector<std::uint64_t>(300 + histogram_extra, 0);

  void widen(int to) {
    if (to > w) reference::histogram_widen({}, to - w, count);
    w = std::max(w, to);
  }
  void add(const std::vector<float>& values) {
    for (const float value : values) reference::grad_max_accumulate({}, {&value, 1}, amax);
    widen(reference::histogram_exponent(amax, 300));
    reference::histogram_count({}, std::ldexp(1.0F, w), HistogramEnd::open, values, count);
  }
  void merge(Doubling other) {
    widen(other.w);
    other.widen(w);
    amax = std::max(amax, other.amax);
    for (std::size_t k = 0; k < count.size(); ++k) count[k] += other.count[k];
  }
};

}  // namespace

TEST_CASE("histogram: bin boundaries by hand; NaNs are counted separately") {
  std::vector<std::uint64_t> count(256 + histogram_extra, 0);
  const std::vector<float> values = {0,      -0.0F, 0.49F,  0.5F, -0.5F,
                                     127.9F, 128,   -1e30F, NAN,  -INFINITY};
  reference::histogram_count({}, 0.5F, HistogramEnd::open, values, count);
  CHECK(count[0] == 3);
  CHECK(count[1] == 2);
  CHECK(count[255] == 1);
  CHECK(count[256] == 2);
  CHECK(count[257] == 2);
  reference::histogram_count({}, 0.5F, HistogramEnd::closed, values, count);
  CHECK(count[255] == 4);
  CHECK(count[256] == 2);
}

TEST_CASE("histogram_exponent: the least exponent whose bins contain amax") {
  CHECK(reference::histogram_exponent(0, 2048) == -149);
  CHECK(reference::histogram_exponent(amax_bits(1), 2048) ==
        -10);  // 2048 * 2^-11 is 1, which is not above amax
  CHECK(reference::histogram_exponent(amax_bits(std::nextafter(1.0F, 0.0F)), 2048) == -11);
  CHECK(reference::histogram_exponent(amax_bits(300), 300) == 1);
  CHECK(reference::histogram_exponent(0x7F7FFFFFU, 256) == 120);
  CHECK(reference::histogram_exponent(255, 256) == -149);  // in units of the smallest subnormal
  CHECK(reference::histogram_exponent(256, 256) == -148);
  CHECK_THROWS_AS(reference::histogram_exponent(0x7F800000U, 256), Error);
}

TEST_CASE("histogram: batches and ranks in any order give the same bins") {
  const Philox philox(3, 1);
  std::vector<std::vector<float>> batches(6);
  std::vector<float> all;
  for (std::size_t b = 0; b < batches.size(); ++b) {
    for (std::uint64_t i = 0; i < 200; ++i) {
      const float value =
          philox.bell(1000 * b + i) * std::ldexp(1.0F, static_cast<int>(5 * b % 7) - 3);
      batches[b].push_back(value);
      all.push_back(value);
    }
  }
  Doubling whole;
  whole.add(all);
  for (const std::vector<std::size_t>& order :
       {std::vector<std::size_t>{0, 1, 2, 3, 4, 5}, {5, 3, 1, 0, 2, 4}, {4, 5, 0, 1, 3, 2}}) {
    Doubling left, right;
    for (std::size_t k = 0; k < order.size(); ++k) (k < 2 ? left : right).add(batches[order[k]]);
    Doubling other = right;
    other.merge(left);
    left.merge(right);
    CHECK(left.count == whole.count);
    CHECK(other.count == whole.count);
    CHECK(left.w == whole.w);
  }
  CHECK(whole.count[300] == 0);
}

TEST_CASE("percentile_amax: the left edge of the first bin that reaches the percentile") {
  const std::vector<std::uint64_t> count = bins_with({{0, 90}, {10, 9}, {200, 1}});
  CHECK(reference::percentile_amax(count, 0.5F, 90) == 0);    // bin 0 has 90 of 100
  CHECK(reference::percentile_amax(count, 0.5F, 90.5) == 5);  // bin 10
  CHECK(reference::percentile_amax(count, 0.5F, 99) == 5);
  CHECK(reference::percentile_amax(count, 0.5F, 99.01) == 100);  // bin 200
  CHECK(reference::percentile_amax(count, 0.5F, 100) == 100);
  CHECK_THROWS_AS(reference::percentile_amax(bins_with({}), 0.5F, 99), Error);
  CHECK_THROWS_AS(reference::percentile_amax(count, 0, 99), Error);
  CHECK_THROWS_AS(reference::percentile_amax(count, 0.5F, 101), Error);
}

TEST_CASE("entropy_amax: the last of the clips without loss") {
  // Bins 4 and 9 have separate levels even where two bins share a level: no clip loses anything.
  CHECK(reference::entropy_amax({}, bins_with({{4, 8}, {9, 3}}), 0.25F, 8) == 64);
  // Bins 4 and 5 with unequal counts: floor(4 * 128 / i) is 2 from i = 171 on, and floor(5 * 128 /
  // i) is 3 up to i = 213 and 2 after. Bins that share a level are no longer distinguished.
  CHECK(reference::entropy_amax({}, bins_with({{4, 8}, {5, 3}}), 1, 8) == 213);
  // An outlier with empty neighbours: an infinite divergence with every clip below it, none above.
  CHECK(reference::entropy_amax({}, bins_with({{4, 8}, {250, 1}}), 1, 8) == 256);
  // The first bin counts as the second one does: zeros alone count as nothing.
  CHECK(reference::entropy_amax({}, bins_with({{0, 1000}}), 1, 8) == 0);
  CHECK_THROWS_AS(reference::entropy_amax({}, bins_with({}), 1, 8), Error);
  CHECK_THROWS_AS(reference::entropy_amax({}, bins_with({{3, 1}}), 1, 9), Error);
}

TEST_CASE("clip_of_errors: the first least error of 25 candidates") {
  // Codes -1, 0, 1 of 2 bits. amax 4, values 3 and 3: the candidate 3 has no error.
  const FakeQuantization options{one_block(1, 2), FakeFormat::integer, 2};
  const std::vector<std::uint32_t> amax = {amax_bits(4)};
  const std::vector<float> values = {3, -3};
  std::vector<NormLimbs> errors(num_clips);
  reference::clip_errors({}, options, 0, values, amax, errors);
  CHECK(reference::grad_norm_finish(errors[24 - first_clip]) == 0);               // 4 * 24 / 32
  CHECK(reference::grad_norm_finish(errors[32 - first_clip]) == std::sqrt(2.0));  // 3 becomes 4
  CHECK(reference::grad_norm_finish(errors[0]) == std::sqrt(8.0));  // 1 is the largest value
  std::vector<std::uint32_t> clipped(1);
  reference::clip_of_errors(amax, errors, clipped);
  CHECK(clipped[0] == amax_bits(3));
  errors[3].nan_count = 1;
  reference::clip_of_errors(amax, errors, clipped);
  CHECK(clipped[0] == amax[0]);
  std::vector<NormLimbs> equal(num_clips);
  reference::clip_of_errors(amax, equal, clipped);
  CHECK(clipped[0] == amax_bits(1));  // the first one
}

TEST_CASE("smooth_scales: alpha divides the range, within limits") {
  const std::vector<std::uint32_t> inputs = {amax_bits(4), amax_bits(0x1p-31F), amax_bits(1e-6F),
                                             amax_bits(1e6F), 0x7F800000U};
  const std::vector<std::uint32_t> weights = {amax_bits(9), amax_bits(1), amax_bits(1),
                                              amax_bits(1), amax_bits(1)};
  std::vector<float> scale(5);
  reference::smooth_scales({}, 1, inputs, weights, scale);
  CHECK(scale == std::vector<float>{0.25F, 1, 1e4F, 1e-4F, 1});
  reference::smooth_scales({}, 0, inputs, weights, scale);
  CHECK(scale == std::vector<float>{9, 1, 1, 1, 1});
  reference::smooth_scales({}, 0.5, inputs, weights, scale);
  CHECK(scale[0] == 1.5F);  // sqrt(9) / sqrt(4), by logarithms and rounded once
  const std::vector<std::uint32_t> none(5, 0);
  reference::smooth_scales({}, 0.5, inputs, none, scale);
  CHECK(scale[0] == 1e-4F);
  CHECK_THROWS_AS(reference::smooth_scales({}, -0.1, inputs, weights, scale), Error);
}

}  // namespace calibration_test
