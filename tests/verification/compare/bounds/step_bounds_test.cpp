// The bounds of unscale, clip, the clip coefficient, the norm and the sum: every legal order is
// inside, a legal order nearly reaches each bound, and wrong results are outside.

#include <doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "verification/compare/bounds/step_bounds.hpp"

namespace step_bounds_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

class Worst {
 public:
  void add(const ElementBound& bound, double got, std::int64_t elements = 1) {
    if (!bound.judged) {
      outside_ += elements;
      return;
    }
    judged_ += elements;
    const double ratio = bound.ratio(got);
    if (!(ratio <= worst_)) worst_ = ratio;  // keeps a NaN
  }
  double ratio() const { return worst_; }
  std::int64_t judged() const { return judged_; }

  void holds(const std::string& name, double least) const {
    CAPTURE(name);
    CHECK(worst_ <= 1);
    CHECK(worst_ >= least);
    CHECK(judged_ > 9 * outside_);
    MESSAGE(name << ": " << worst_ << " of its bound, " << judged_ << " elements, " << outside_
                 << " outside");
  }

 private:
  double worst_ = 0;
  std::int64_t judged_ = 0, outside_ = 0;
};

class Draws {
 public:
  std::uint64_t word() { return random_(); }
  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(word() >> 11) * 0x1p-53;
  }
  float number(int low, int high) {  // exponents in [low, high), both signs equally often
    const std::uint64_t w = word();
    const double significand = 1 + static_cast<double>(w >> 41) * 0x1p-23;
    const int exponent =
        low + static_cast<int>((w & 0xFFFFU) * static_cast<std::uint64_t>(high - low) >> 16);
    return static_cast<float>(
        std::ldexp((w >> 16 & 1U) != 0 ? -significand : significand, exponent));
  }

 private:
  std::mt19937_64 random_{17};
};

Worst products(bool by_reciprocal, std::int64_t count) {
  Draws draws;
  Worst worst;
  for (std::int64_t i = 0; i < count; ++i) {
    const float x = by_reciprocal ? draws.number(-80, 100)
                                  : draws.number(-149, 128);  // the family without underflow
    const float factor = std::fabs(draws.number(-40, 20));
    const float reciprocal = 1 / factor;
    worst.add(product_bound(x, factor), by_reciprocal ? x / reciprocal : x * factor);
  }
  return worst;
}

float coef_in_fp32(double norm, double max_norm) {
  const float q = static_cast<float>(max_norm) / (static_cast<float>(norm) + 1e-6F);
  return q < 1 ? q : 1;
}

float coef_in_fp64(double norm, double max_norm) {
  const double q = max_norm / (norm + 1e-6);
  return static_cast<float>(q < 1 ? q : 1);
}

Worst coefficients(float (*of)(double, double), std::int64_t count) {
  Draws draws;
  Worst worst;
  for (std::int64_t i = 0; i < count; ++i) {
    const double norm = std::exp2(draws.uniform(-30, 60));
    const double limit =
        i % 4 == 0 ? norm * draws.uniform(0.9, 1.1) : std::exp2(draws.uniform(-40, 20));
    worst.add(clip_coef_bound(norm, limit), of(norm, limit));
  }
  return worst;
}

using Norm = std::function<double(const std::vector<float>&, float)>;

float raised(float magnitude, float p) {
  return p == 1 ? magnitude : p == 2 ? magnitude * magnitude : std::pow(magnitude, p);
}
float root_of(float sum, float p) {
  return p == 1 ? sum : p == 2 ? std::sqrt(sum) : std::pow(sum, 1 / p);
}

float largest_of(const std::vector<float>& x) {
  float most = 0;
  for (const float one : x) most = std::max(most, std::fabs(one));
  return most;
}

double one_after_another(const std::vector<float>& x, float p) {
  const float scale = largest_of(x);
  float sum = 0;
  for (const float one : x) sum += raised(std::fabs(one) / scale, p);
  return scale * root_of(sum, p);
}

float pairwise_sum(const std::vector<float>& x, std::size_t begin, std::size_t end, float p,
                   float scale) {
  if (end - begin == 1) return raised(std::fabs(x[begin]) / scale, p);
  const std::size_t middle = begin + (end - begin) / 2;
  return pairwise_sum(x, begin, middle, p, scale) + pairwise_sum(x, middle, end, p, scale);
}

double pairwise(const std::vector<float>& x, float p) {
  const float scale = largest_of(x);
  return scale * root_of(pairwise_sum(x, 0, x.size(), p, scale), p);
}

double in_fp64(const std::vector<float>& x, float p) {
  const double scale = largest_of(x);
  double sum = 0;
  for (const float one : x) sum += std::pow(std::fabs(double{one}) / scale, double{p});
  return scale * std::pow(sum, 1 / double{p});
}

/// Random values, or one so large that every later addition is lost.
std::vector<float> values_of(Draws& draws, float p) {
  std::vector<float> x(1 + draws.word() % 4099);
  const bool loses = draws.word() % 4 == 0;
  for (float& one : x)
    one = loses ? std::nextafter(std::exp2(-24 / p), 0.0F) : draws.number(-10, 0);
  if (loses) x[0] = 1;
  return x;
}

Worst norms(const Norm& norm, float p, std::int64_t elements) {
  Draws draws;
  Worst worst;
  while (worst.judged() < elements) {
    const std::vector<float> x = values_of(draws, p);
    worst.add(norm_bound(x, p), norm(x, p), static_cast<std::int64_t>(x.size()));
  }
  return worst;
}

Worst sums(std::int64_t elements) {
  Draws draws;
  Worst worst;
  while (worst.judged() < elements) {
    std::array<float, 16> x{};
    const std::size_t count = 2 + draws.word() % 15;
    const bool loses = draws.word() % 4 == 0;
    for (float& one : x) one = loses ? 0x1p-24F : draws.number(-8, 0);
    if (loses) x[0] = 1;
    float sum = x[0];
    for (std::size_t j = 1; j < count; ++j) sum += x[j];
    worst.add(sum_bound({x.data(), count}), sum, static_cast<std::int64_t>(count));
  }
  return worst;
}

constexpr std::array<float, 7> powers = {0.5F, 1, 1.5F, 2, 3, 7.25F, 64};

void check_all(std::int64_t elements) {
  products(false, elements).holds("product", 0.45);  // half of the bound is for the other order
  products(true, elements).holds("quotient by the reciprocal", 0.9);
  coefficients(coef_in_fp32, elements).holds("clip coefficient in fp32", 0.5);
  coefficients(coef_in_fp64, elements).holds("clip coefficient in fp64", 0.2);
  sums(elements).holds("sum, one after another", 0.9);
  for (const float p : powers) {
    const std::string of = ", p " + std::to_string(p);
    norms(one_after_another, p, elements / 7 + 1)
        .holds("norm, one after another" + of, p < 5 ? 0.9 : 0.5);
    norms(pairwise, p, elements / 7 + 1).holds("norm, pairwise" + of, 0);
    norms(in_fp64, p, elements / 7 + 1).holds("norm in fp64" + of, 0);
  }
}

}  // namespace

TEST_CASE(
    "bounds: no legal order of a step's other operations leaves them, and each is nearly reached") {
  check_all(600000);
}

TEST_CASE("slow: bounds: 10^8 elements of every legal order of a step's other operations") {
  check_all(100000000);
}

TEST_CASE("bounds: wrong results of a step's other operations are outside") {
  Draws draws;
  int found = 0;
  for (int i = 0; i < 1000; ++i) {
    const float x = draws.number(-100, 100);
    found += product_bound(x, 0.37F).ratio(x * 0.37001F) > 1 ? 1 : 0;
    found += product_bound(x, 0.37F).ratio(x) > 1 ? 1 : 0;
    found += product_bound(x, 0.37F).ratio(NAN) <= 1 ? 0 : 1;
    const float tiny = draws.number(-140, -127);
    found += product_bound(tiny, 0.37F).ratio(0) > 1 ? 1 : 0;  // flushed to zero
    const double norm = std::exp2(draws.uniform(-18, 6));
    found += clip_coef_bound(norm, norm / 3).ratio(norm / 3 / norm) > 1 || norm > 4
                 ? 1
                 : 0;  // without the 1e-6
    found += clip_coef_bound(norm, norm / 3).ratio(1) > 1 ? 1 : 0;
  }
  CHECK(found == 6000);
  std::vector<float> x(1024, 0.5F);
  CHECK(norm_bound(x, 2).ratio(16) == 0);
  CHECK(norm_bound(x, 2).ratio(16 * std::sqrt(1023 / 1024.0)) > 1);  // an element left out
  CHECK(norm_bound(x, 2).ratio(256) > 1);                            // no root
  CHECK(norm_bound(x, 1).ratio(512) == 0);
  x[7] = 1e20F;
  CHECK_FALSE(norm_bound(x, 2).ratio(INFINITY) <= 1);  // a square that overflows
  x[7] = NAN;
  CHECK(norm_bound(x, 2).ratio(NAN) == 0);
  CHECK_FALSE(norm_bound(x, 2).ratio(16) <= 1);
  x[7] = -INFINITY;
  CHECK(norm_bound(x, 2).ratio(INFINITY) == 0);
  CHECK_FALSE(norm_bound(x, 2).ratio(NAN) <= 1);
}

TEST_CASE("bounds: a step's other operations by hand, and outside the conditions") {
  CHECK(product_bound(3, 0.5F).exact == 1.5L);
  CHECK(product_bound(3, 0.5F).allowed > 3 * 0x1p-24L);
  CHECK(product_bound(3, 0.5F).allowed < 3 * 0x1p-24L * (1 + 0x1p-20L));
  CHECK(product_bound(0, 0.5F).ratio(0) == 0);
  CHECK_FALSE(product_bound(0, 0.5F).ratio(0x1p-149) <= 1);
  CHECK(product_bound(INFINITY, 0).ratio(NAN) == 0);
  CHECK_FALSE(product_bound(INFINITY, 0).ratio(0) <= 1);
  CHECK(product_bound(-0x1p100F, 0x1p100F).ratio(-INFINITY) == 0);
  CHECK_FALSE(product_bound(-0x1p100F, 0x1p100F).ratio(0x1.fffffep127F) <= 1);
  CHECK_FALSE(product_bound(0x1.fffffep127F, 1).judged);  // a reciprocal may overflow here
  CHECK(product_bound(0x1.fffff0p127F, 1).judged);
  CHECK(product_bound(0x1.fffffep127F, 1).ratio(INFINITY) == 0);
  CHECK_FALSE(product_bound(0x1.fffffep127F, 1).ratio(NAN) <= 1);
  CHECK_FALSE(product_bound(0x1.fffffep127F, 1).ratio(-INFINITY) <= 1);
  CHECK(sum_bound(std::vector<float>{1, NAN}).ratio(NAN) == 0);
  CHECK_FALSE(sum_bound(std::vector<float>{1, NAN}).ratio(1) <= 1);
  CHECK(sum_bound(std::vector<float>{1, INFINITY}).ratio(INFINITY) == 0);
  CHECK_FALSE(sum_bound(std::vector<float>{1, INFINITY}).ratio(0x1.fffffep127F) <= 1);
  CHECK_FALSE(sum_bound(std::vector<float>{-INFINITY, INFINITY}).ratio(INFINITY) <= 1);
  const std::vector<float> large(3, 0x1p127F);  // three terms: infinite in fp32 and fp64
  CHECK_FALSE(sum_bound(large).ratio(0x1.fffffep127F) <= 1);
  CHECK(sum_bound(large).ratio(INFINITY) == 0);
  CHECK(clip_coef_bound(NAN, 1).ratio(NAN) == 0);
  CHECK_FALSE(clip_coef_bound(NAN, 1).ratio(1) <= 1);
  CHECK(clip_coef_bound(INFINITY, 1).ratio(0) == 0);
  CHECK(clip_coef_bound(0, 1).ratio(1) == 0);
  CHECK_FALSE(clip_coef_bound(0, 1).ratio(0.99999994) <=
              1);  // far from the limit every order gives 1
  CHECK_FALSE(clip_coef_bound(-1, 1).judged);
  CHECK_FALSE(clip_coef_bound(1, 0x1p-140).judged);  // fp32 cannot represent its digits
  CHECK_FALSE(clip_coef_bound(0x1p130, 1).judged);
  const std::vector<float> few = {3, 4};
  CHECK(norm_bound(few, 2).exact == 5);
  CHECK_FALSE(norm_bound(few, 0.25).judged);
  CHECK_FALSE(norm_bound(std::vector<float>(1000000, 1.0F), 1).judged);
  CHECK(norm_bound({}, 2).ratio(0) == 0);
  const std::array<float, 3> three = {1, 0x1p-24F, 0x1p-24F};
  CHECK(sum_bound(three).ratio(1) > 0.99);
  CHECK(sum_bound(three).ratio(1) <= 1);
  CHECK(sum_bound(three).ratio(1.0000002) <= 1);
  CHECK_FALSE(sum_bound(three).ratio(1.000001) <= 1);
  CHECK(sum_bound({three.data(), 1}).ratio(1) == 0);
  CHECK_FALSE(sum_bound({three.data(), 1}).ratio(1.0000001) <= 1);
  CHECK(ElementBound{1, 0, true}.ratio(NAN) != ElementBound{1, 0, true}.ratio(1));
}

}  // namespace step_bounds_test
