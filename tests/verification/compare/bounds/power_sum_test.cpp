// Sums of terms that are not negative, in fp32 and in many orders, against [Bound:norm_sum] and [Bound:norm_large].

#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "common/base/philox.hpp"
#include "verification/compare/bounds/power_sum.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;
using bounds::Real;

float uniform(std::uint32_t i) {
  return (static_cast<float>(philox4x32({i, 0, 0, 36}, 11)[0]) + 0.5F) * 0x1p-32F;
}

/// Magnitudes of gradients: of one size, normal, most of them tiny, zeros between, one large.
std::vector<float> gradients(int kind, std::size_t n) {
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) {
    const float a = uniform(static_cast<std::uint32_t>(2 * i));
    const float b = uniform(static_cast<std::uint32_t>(2 * i + 1));
    const float normal = std::sqrt(-2 * std::log(a)) * std::cos(6.2831853F * b);
    x[i] = kind == 0   ? 1.0F
           : kind == 1 ? normal
           : kind == 2 ? std::exp(8 * normal)
           : kind == 3 ? (i % 10 == 0 ? normal : 0.0F)
                       : (i == 0 ? 1.0F : 0x1.8p-13F);
  }
  return x;
}

PowerSum powers_of(const std::vector<float>& x, bool squares = true) {
  PowerSum sum;
  for (const float value : x)
    sum.add(squares ? static_cast<Real>(value) * static_cast<Real>(value)
                    : std::fabs(static_cast<Real>(value)));
  return sum;
}

float sequential(const std::vector<float>& terms) {
  float sum = 0;
  for (const float term : terms) sum += term;
  return sum;
}

float in_lanes(const std::vector<float>& terms, std::size_t lanes) {
  std::vector<float> sums(lanes, 0.0F);
  for (std::size_t i = 0; i < terms.size(); ++i) sums[i % lanes] += terms[i];
  return sequential(sums);
}

float in_pairs(std::vector<float> terms) {
  for (std::size_t width = 1; width < terms.size(); width *= 2) {
    for (std::size_t i = 0; i + width < terms.size(); i += 2 * width) terms[i] += terms[i + width];
  }
  return terms.front();
}

}  // namespace

TEST_CASE(
    "PowerSum: no order of additions is further off than the bound, and one nearly reaches it") {
  Real most = 0;
  for (int kind = 0; kind < 5; ++kind) {
    for (const std::size_t n : {1U, 2U, 1000U, 1U << 16, 1U << 21}) {
      const std::vector<float> x = gradients(kind, n);
      const PowerSum exact = powers_of(x);
      std::vector<float> terms;
      for (const float value : x) terms.push_back(value * value);
      std::vector<float> ascending = terms;
      std::ranges::sort(ascending);
      const std::vector<float> descending(ascending.rbegin(), ascending.rend());
      for (const float sum :
           {sequential(terms), sequential(ascending), sequential(descending), in_lanes(terms, 8),
            in_lanes(descending, 32), in_pairs(terms), in_pairs(descending)}) {
        CAPTURE(kind);
        CAPTURE(n);
        const Real norm = std::sqrt(exact.total());
        const Real error =
            std::fabs(std::sqrt(static_cast<Real>(std::sqrt(sum) * std::sqrt(sum))) - norm);
        // One rounding of every term besides the sum.
        const Real off = std::fabs(static_cast<Real>(sum) - exact.total()) / exact.total();
        CHECK(off <= exact.sum_error() + 2 * bounds::u);
        CHECK(exact.norm_error(2) >= 0);
        CHECK(error <= exact.norm_error(2) * norm);
        most = std::max(most, off / (exact.sum_error() + 2 * bounds::u));
      }
    }
  }
  CHECK(most > 0.99L);  // the largest term first, and the others below half of its spacing
  CHECK(most <= 1);
}

TEST_CASE(
    "PowerSum: parts of 8 million elements have a bound, which is smaller for small elements") {
  constexpr std::size_t n = std::size_t{1} << 23;
  const Real even = powers_of(gradients(0, n)).norm_error(2);
  const Real normal = powers_of(gradients(1, n)).norm_error(2);
  const Real skewed = powers_of(gradients(2, n)).norm_error(2);
  CHECK(even == doctest::Approx(1 - std::sqrt(0.5)).epsilon(0.01));
  CHECK(normal < even);
  CHECK(normal > 0.1L);
  CHECK(skewed > 0);
  CHECK(skewed < 0.01L);
  // Nothing is known of the terms of sampled parameters.
  PowerSum unknown;
  unknown.add_unknown(1, n);
  CHECK(unknown.norm_error(2) == doctest::Approx(static_cast<double>(even)).epsilon(0.01));
  PowerSum both = powers_of(gradients(1, 1000));
  both.add(powers_of(gradients(2, 1000)));
  CHECK(both.count() == 2000);
  PowerSum too_many;
  too_many.add_unknown(1, 1 << 25);
  CHECK(too_many.norm_error(2) < 0);
  CHECK(powers_of(gradients(1, 10)).norm_error(0.25L) < 0);
  CHECK(powers_of(gradients(3, 1000)).count() == 100);  // zeros change no sum
}

TEST_CASE("PowerSum: the bound of terms below the spacing grows with the square of their number") {
  PowerSum one, many;
  many.add(0x1p-90L);
  for (int doubled = 0; doubled < 26; ++doubled) many.add(PowerSum(many));
  one.add(1);
  one.add(many);
  const auto n = static_cast<Real>(one.count());
  REQUIRE(n == 0x1p26L + 1);
  CHECK(one.sum_error() >= 4 * (n - 1) * bounds::u * bounds::u * (1 + n * bounds::u));
}
