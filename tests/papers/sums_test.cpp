// papers/summation.md and [Clip:error]: random and worst cases of every bound, against 113-bit
// arithmetic.
#include <doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "cases.hpp"

using namespace zeroproof::papers;

namespace {

constexpr double w = 0x1p-53;

double as_double(Real x) { return static_cast<double>(x); }

/// R11's definition: node (level, k) over M leaves.
float tree(const std::vector<float>& x, int level, std::size_t k) {
  if (level == 0) return x[k];
  const float left = tree(x, level - 1, 2 * k);
  if ((2 * k + 1) << (level - 1) >= x.size()) return left;
  return left + tree(x, level - 1, 2 * k + 1);
}

int height(std::size_t leaves) { return static_cast<int>(std::bit_width(leaves - 1)); }

float left_fold(const std::vector<float>& x) {
  float sum = x[0];
  for (std::size_t j = 1; j < x.size(); ++j) sum += x[j];
  return sum;
}

/// |computed - exact sum| in units of u * sum |x|.
double error_of_sum(const std::vector<float>& x, float computed) {
  Real sum = 0;
  Real magnitudes = 0;
  for (const float value : x) {
    sum += value;
    magnitudes += std::fabs(value);
  }
  return magnitudes == 0 ? 0 : as_double(magnitude(sum - computed) / (u * magnitudes));
}

/// lambda_h of [Sum:tree] in units of u.
double lambda(int additions) {
  const Real v = u / (1 + u);
  Real power = 1;
  for (int i = 0; i < additions; ++i) power *= 1 + v;
  return as_double((power - 1) / u);
}

double chunk_sum(const std::vector<float>& x) {
  double a[32] = {};
  for (std::size_t s = 0; s < 32; ++s) {
    for (std::size_t l = 0; l < 32; ++l) a[l] += double{x[32 * s + l]} * double{x[32 * s + l]};
  }
  for (std::size_t half = 16; half >= 1; half /= 2) {
    for (std::size_t l = 0; l < half; ++l) a[l] += a[l + half];
  }
  return a[0];
}

Real squares(const std::vector<float>& x) {
  Real sum = 0;
  for (const float value : x) sum += Real(value) * value;
  return sum;
}

/// |norm - sqrt(sum)| / sqrt(sum) in units of 2^-53.
double error_of_norm(double norm, Real sum) {
  return as_double(magnitude(norm / root(sum) - 1)) / w;
}

/// The largest fp32 whose square does not exceed 2^-53.
float just_lost() {
  float y = std::sqrt(0x1p-53F);
  while (double{y} * double{y} > w) y = std::nextafterf(y, 0.0F);
  return y;
}

}  // namespace

TEST_CASE("[Sum:tree] and [Sum:left]: random sums of 1 to 70 leaves") {
  Cases cases(3);
  for (int i = 0; i < 20000; ++i) {
    std::vector<float> x(cases.between(1, 70));
    const int kind = cases.between(0, 3);
    for (float& value : x) {
      value = kind == 0   ? cases.with_exponent(-3, 3)
              : kind == 1 ? cases.with_exponent(-149, -130)
              : kind == 2 ? std::ldexp(1.0F, -cases.between(0, 25))
                          : cases.value();
    }
    const int h = height(x.size());
    const double tree_error = error_of_sum(x, tree(x, h, 0));
    const double fold_error = error_of_sum(x, left_fold(x));
    CHECK(tree_error <= lambda(h));
    CHECK(tree_error <= h);  // the theorem of Lange and Rump
    CHECK(fold_error <= static_cast<double>(x.size() - 1));
  }
}

TEST_CASE("[Sum:tree] and [Sum:left]: worst cases") {
  for (int h = 1; h <= 10; ++h) {
    std::vector<float> x(std::size_t{1} << h, 0.0F);
    x[0] = 1;
    for (int i = 0; i < h; ++i) x[std::size_t{1} << i] = 0x1p-24F;
    CHECK(error_of_sum(x, tree(x, h, 0)) > 0.9999 * h);

    std::fill(x.begin() + 1, x.end(), 0x1p-24F);
    CHECK(error_of_sum(x, left_fold(x)) > 0.9999 * static_cast<double>(x.size() - 1));
  }
  CHECK(lambda(3) <= 3);
  CHECK(lambda(64) > 64);
  CHECK(lambda(64) < 64 * 1.00001);
}

TEST_CASE("[Norm:chunk]: 20 units of 2^-53, random and nearly attained") {
  Cases cases(4);
  for (int i = 0; i < 2000; ++i) {
    std::vector<float> x(1024);
    const int kind = cases.between(0, 2);
    for (float& value : x) {
      value = kind == 0   ? cases.with_exponent(-149, -140)
              : kind == 1 ? cases.with_exponent(-20, 126)
                          : static_cast<float>(cases.uniform());
    }
    CHECK(error_of_norm(std::sqrt(chunk_sum(x)), squares(x)) <= 20);
  }
  std::vector<float> x(1024, 0.0F);
  const float y = just_lost();
  for (std::size_t s = 0; s < 32; ++s) x[32 * s] = s == 0 ? 1 : y;
  for (const std::size_t lane : {16U, 8U, 4U, 2U, 1U}) x[lane] = y;
  const double worst = error_of_norm(std::sqrt(chunk_sum(x)), squares(x));
  CHECK(worst <= 20);
  CHECK(worst > 17.9);

  // A fold of the lanes would lose them all; the tree loses lane 16 only.
  std::fill(x.begin() + 1, x.begin() + 32, y);
  std::fill(x.begin() + 32, x.end(), 0.0F);
  CHECK(chunk_sum(x) > 1);
}

TEST_CASE("[Norm:exact]: one rounding, and one of the root") {
  Cases cases(5);
  double largest = 0;
  for (int i = 0; i < 20000; ++i) {
    std::vector<float> x(cases.between(1, 20));
    for (float& value : x) value = cases.with_exponent(-20, 0);
    const Real sum = squares(x);  // at most 48 + 40 + 5 bits: exact
    largest = std::max(largest, error_of_norm(std::sqrt(as_double(sum)), sum));
  }
  CHECK(largest <= 2);
  CHECK(largest > 1.3);
}

TEST_CASE("[Norm:range] and [Norm:carry]: the stated limits are exact") {
  // Biased exponents of the smallest square and of a chunk of the largest ones.
  const auto position = [](double sum) {
    return static_cast<int>(std::bit_cast<std::uint64_t>(sum) >> 52) - 723;
  };
  std::vector<float> x(1024, 0.0F);
  x[1023] = 0x1p-149F;
  CHECK(position(chunk_sum(x)) == 2);
  std::fill(x.begin(), x.end(), 0x1.fffffep127F);
  CHECK(position(chunk_sum(x)) == 565);
  CHECK(565 / 32 + 2 == 19);

  // (n + 2) (2^32 - 1) fits into 64 bits for n = 2^32 - 1 and for no more.
  __extension__ using Wide = unsigned __int128;
  const Wide digit = 0xFFFFFFFFU;
  CHECK((digit + 2) * digit == ~std::uint64_t{0});
}

TEST_CASE("[Norm:p]: random p") {
  Cases cases(6);
  for (int i = 0; i < 4000; ++i) {
    const std::size_t n = static_cast<std::size_t>(cases.between(1, 200));
    const int kind = cases.between(0, 3);
    const double p = kind == 0   ? 0.01 + cases.uniform()
                     : kind == 1 ? std::exp2(40 * cases.uniform())
                     : kind == 2 ? 3
                                 : 1 + 10 * cases.uniform();
    std::vector<float> x(n);
    float largest = 0;
    for (float& value : x) {
      value = kind == 2 ? cases.with_exponent(-149, 100) : cases.with_exponent(-3, 3);
      largest = std::max(largest, std::fabs(value));
    }
    double sum = 0;
    long double exact = 0;
    for (const float value : x) {
      sum += std::pow(std::fabs(double{value}) / double{largest}, p);
      exact += std::pow(std::fabs(static_cast<long double>(value)) / largest,
                        static_cast<long double>(p));
    }
    const double norm = largest * std::pow(sum, 1 / p);
    const long double truth = largest * std::pow(exact, 1 / static_cast<long double>(p));
    const double bound = 1.01 * ((static_cast<double>(n) + 50) / p + 8) * w;
    if (std::isfinite(norm)) CHECK(std::fabs(static_cast<double>(norm / truth - 1)) <= bound);
  }
}

TEST_CASE("[Clip:error]: a norm that is off by 20 units of 2^-53") {
  Cases cases(8);
  double largest = 0;
  for (int i = 0; i < 100000; ++i) {
    const Real norm = std::ldexp(1 + cases.uniform(), cases.between(-40, 39));
    const double seen = as_double(norm * (1 + Real(40 * w) * (cases.uniform() - 0.5)));
    const double limit = std::ldexp(1 + cases.uniform(), cases.between(-10, 9));
    const double q = limit / (seen + 1e-6);
    const float computed = static_cast<float>(q < 1 ? q : 1);
    const Real ratio = limit / (norm + 1e-6);
    const Real exact = ratio < 1 ? ratio : Real(1);
    const Real nu = magnitude(seen / norm - 1);
    const Real rho = (nu * norm / (norm + 1e-6) + 2 * w) * (1 + Real(0x1p-40));
    largest =
        std::max(largest, as_double(magnitude(computed - exact) / (exact * (rho + u * (1 + rho)))));
  }
  CHECK(largest <= 1);
  CHECK(largest > 0.9);
}
