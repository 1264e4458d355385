// Stochastic rounding (R8, R15): the draw of each element, and the mean of rounded values. The
// generator is deterministic, so the statistics always pass or always fail; the limits are five
// standard deviations.

#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "common/base/float_formats.hpp"
#include "common/contracts/cast.hpp"
#include "oracle.h"
#include "oracle_implementations.hpp"
#include "oracle_inputs.hpp"

namespace stochastic_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::oracle;

std::vector<std::uint16_t> cast(const Implementation& implementation, const RoundingDraw& draw,
                                const std::vector<float>& source) {
  std::vector<bf16> target(source.size());
  implementation.stochastic_cast_to_bf16(implementation.exec, draw, source, target);
  std::vector<std::uint16_t> bits;
  for (bf16 x : target) bits.push_back(x.bits);
  return bits;
}

/// True if element i was rounded up. Of a value whose lower half is `low`, 1 in 65536 / low draws
/// rounds up.
std::vector<double> ups(const Implementation& implementation, const RoundingDraw& draw, float value,
                        std::size_t draws) {
  const std::vector<std::uint16_t> bits =
      cast(implementation, draw, std::vector<float>(draws, value));
  const std::uint32_t down = std::bit_cast<std::uint32_t>(value) >> 16;
  std::vector<double> result;
  std::size_t strange = 0;
  for (std::uint16_t b : bits) {
    strange += b != down && b != down + 1U;
    result.push_back(b != down ? 1.0 : 0.0);
  }
  CHECK(strange == 0);
  return result;
}

double mean(const std::vector<double>& x) {
  double sum = 0;
  for (double value : x) sum += value;
  return sum / static_cast<double>(x.size());
}

/// Correlation in units of its standard deviation: the sum of n products of independent centred values, each of
/// variance (p (1 - p))^2, has deviation sqrt(n) p (1 - p).
double correlation(const std::vector<double>& a, const std::vector<double>& b, std::size_t lag,
                   double p) {
  const std::size_t n = std::min(a.size(), b.size()) - lag;
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += (a[i] - p) * (b[i + lag] - p);
  return sum / (std::sqrt(static_cast<double>(n)) * p * (1 - p));
}

}  // namespace

TEST_CASE("draws: any first element, any boundary, any thread count") {
  // Also around the wrap of the counter's low word; all elements of one run must be below its
  // limit.
  for (std::uint64_t base :
       {std::uint64_t{0}, (std::uint64_t{1} << 34) - 600, std::uint64_t{1} << 62}) {
    std::vector<float> source;
    for (std::uint64_t i = 0; i < 1200; ++i) source.push_back(make_element(Family::training, i)[1]);
    std::vector<std::uint16_t> expected(source.size());
    oracle_cast_stochastic(99, 3, base, source.data(), expected.data(), source.size());
    for (const Implementation& implementation :
         implementations_with(&Implementation::stochastic_cast_to_bf16)) {
      std::int64_t differ = 0;
      for (std::size_t first = 0; first < 70; ++first) {
        for (std::size_t numel :
             {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{5},
              std::size_t{16}, std::size_t{33}, std::size_t{600}, source.size() - first}) {
          for (int threads : {1, 3}) {
            if (threads > 1 && numel < 600) continue;
            Implementation with_threads = implementation;
            with_threads.exec.num_threads = threads;
            const auto begin = source.begin() + static_cast<std::ptrdiff_t>(first);
            const std::vector<std::uint16_t> bits =
                cast(with_threads, {99, 3, base + first},
                     {begin, begin + static_cast<std::ptrdiff_t>(numel)});
            differ += !std::equal(bits.begin(), bits.end(),
                                  expected.begin() + static_cast<std::ptrdiff_t>(first));
          }
        }
      }
      CHECK_MESSAGE(differ == 0, implementation.name);
    }
  }
}

TEST_CASE("draws: the low word of the step, all of the seed") {
  const std::vector<float> source(4096, 1.00390625F);  // half-way between two bf16
  for (const Implementation& implementation :
       implementations_with(&Implementation::stochastic_cast_to_bf16)) {
    CAPTURE(implementation.name);
    const auto bits = cast(implementation, {5, 7, 11}, source);
    CHECK(bits == cast(implementation, {5, (std::uint64_t{3} << 32) + 7, 11}, source));
    CHECK(bits != cast(implementation, {5, 8, 11}, source));
    CHECK(bits != cast(implementation, {6, 7, 11}, source));
    CHECK(bits != cast(implementation, {(std::uint64_t{1} << 32) + 5, 7, 11}, source));
    CHECK(bits != cast(implementation, {5, 7, 12}, source));
    CHECK(bits != cast(implementation, {5, 7, (std::uint64_t{1} << 34) + 11}, source));
  }
}

TEST_CASE("draws: the mean is the value, 10^6 draws within five standard deviations") {
  constexpr std::size_t draws = 1'000'000;
  double worst = 0;
  const std::vector<Implementation> implementations =
      implementations_with(&Implementation::stochastic_cast_to_bf16);
  for (std::uint32_t low : {1U, 0x0100U, 0x4000U, 0x7FFFU, 0x8000U, 0x8001U, 0xC000U, 0xFFFFU}) {
    for (std::uint32_t high : {0x3F80U, 0xBF7FU, 0x0000U, 0x8001U, 0x007FU, 0x7F7EU}) {
      const float value = from_bits(high << 16 | low);
      const double p = low / 65536.0;
      for (const Implementation& implementation : implementations) {
        const RoundingDraw draw{2024 + low, high, 13 * high};
        const double up = mean(ups(implementation, draw, value, draws));
        const double sigmas =
            std::abs(up - p) / std::sqrt(p * (1 - p) / static_cast<double>(draws));
        worst = std::max(worst, sigmas);
        CHECK_MESSAGE(sigmas < 5, implementation.name);
        // The same in units of the value: the neighbours are exact in double.
        const double down = to_float(bf16{static_cast<std::uint16_t>(high)});
        const double next = to_float(bf16{static_cast<std::uint16_t>(high + 1)});
        const double error = down + up * (next - down) - static_cast<double>(value);
        const double limit =
            5 * std::sqrt(p * (1 - p) / static_cast<double>(draws)) * std::abs(next - down);
        CHECK(std::abs(error) <= limit * 1.000001);
      }
    }
  }
  std::printf(
      "stochastic rounding: 48 values x %zu draws x %zu implementations, largest mean error %.2f "
      "sigma\n",
      draws, implementations.size(), worst);
}

TEST_CASE("draws: independent over elements and steps") {
  constexpr std::size_t draws = 1'000'000;
  const Implementation implementation =
      reference_implementation();  // the others have the same bits (cast_test)
  double worst = 0;
  for (std::uint32_t low : {0x8000U, 0x2000U}) {
    const double p = low / 65536.0;
    const float value = from_bits(0x3F800000U | low);
    const std::vector<double> now = ups(implementation, {17, 40, 0}, value, draws);
    for (std::size_t lag : {1, 2, 3, 4, 5, 8, 16, 1024}) {
      worst = std::max(worst, std::abs(correlation(now, now, lag, p)));
    }
    for (const RoundingDraw& other :
         {RoundingDraw{17, 41, 0}, RoundingDraw{17, 42, 0}, RoundingDraw{18, 40, 0},
          RoundingDraw{17, 40, std::uint64_t{1} << 34}}) {
      const std::vector<double> then = ups(implementation, other, value, draws);
      for (std::size_t lag : {0, 1, 4})
        worst = std::max(worst, std::abs(correlation(now, then, lag, p)));
    }
  }
  std::printf("stochastic rounding: 40 correlations over %zu draws, largest %.2f sigma\n", draws,
              worst);
  CHECK(worst < 5);
}

TEST_CASE("draws: values that never move, and values that may become infinite") {
  std::vector<float> exact, other;
  for (std::uint32_t high = 0; high < 0x10000; ++high) exact.push_back(from_bits(high << 16));
  for (std::uint32_t i = 0; i < 4096; ++i) other.push_back(from_bits(0x7F7F0000U + 16 * i));
  for (const Implementation& implementation :
       implementations_with(&Implementation::stochastic_cast_to_bf16)) {
    CAPTURE(implementation.name);
    const auto bits = cast(implementation, {3, 4, 5}, exact);
    std::int64_t moved = 0, infinite = 0;
    for (std::uint32_t high = 0; high < 0x10000; ++high) {
      const bool is_nan = (high & 0x7FFF) > 0x7F80;
      moved += is_nan ? (bits[high] & 0x7FFF) <= 0x7F80 : bits[high] != high;
    }
    CHECK(moved == 0);
    for (std::uint16_t b : cast(implementation, {3, 4, 5}, other)) {
      CHECK((b == 0x7F7F || b == 0x7F80));
      infinite += b == 0x7F80;
    }
    CHECK(infinite > 1500);  // about half of them
    CHECK(infinite < 2600);
  }
}

}  // namespace stochastic_test
