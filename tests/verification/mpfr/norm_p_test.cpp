// The p-norm is the one operation with a bound instead of bits: every implementation must be within
// the bound of common/contracts/grad_norm.hpp, measured with GNU MPFR at 256 bits.

#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "oracle_implementations.hpp"
#include "oracle_norm_cases.hpp"
#include "tests/verification/mpfr/big.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::oracle;
using zeroproof::tests::Big;

constexpr double exponents[] = {0.5, 1, 1.5, 2, 3, 7.25, 60};

double bound(std::size_t numel, double p) {
  return 1.01 * ((static_cast<double>(numel) + 50) / p + 8) * 0x1p-53;
}

/// Families whose values are finite.
const DataFamily p_families[] = {
    data_families[0],  // training
    {"wide exponents", [](std::uint64_t i) { return with_exponent(i, 0, 255); }},
    {"medium exponents", [](std::uint64_t i) { return with_exponent(i, 100, 30); }},
    {"around subnormal", [](std::uint64_t i) { return with_exponent(i, 0, 24); }},
    {"huge", [](std::uint64_t i) { return with_exponent(i, 253, 2); }},
    {"all the same", [](std::uint64_t) { return from_bits(0x3DCCCCCD); }},
    {"one large, the rest small", [](std::uint64_t i) { return i == 5 ? 1.0F : 0x1.234568p-26F; }},
};

struct Worst {
  double ratio = 0;  ///< error / bound
  std::string where;
};

/// magnitude^p; multiples of 1/4 use roots and products, which is ten times faster.
Big power(const Big& magnitude, double p) {
  if (4 * p > 1024 || 4 * p != std::floor(4 * p)) return pow(magnitude, Big(p));
  Big root = sqrt(sqrt(magnitude)), result = 1.0;
  for (int k = static_cast<int>(4 * p); k > 0; k /= 2) {
    if (k % 2 == 1) result = result * root;
    root = root * root;
  }
  return result;
}

/// For finite elements, not all of them zero. Powers are of quotients by the largest magnitude, so
/// that none overflows.
Big norm_of(const std::vector<float>& grad, double p) {
  Big amax, sum;
  for (const float x : grad) amax = amax < abs(Big(double{x})) ? abs(Big(double{x})) : amax;
  for (const float x : grad) {
    if (x != 0) sum = sum + power(abs(Big(double{x})) / amax, p);
  }
  return amax * pow(sum, Big(1.0) / Big(p));
}

/// NaN counts as an infinite error.
void judge(const std::vector<float>& grad, double p, const char* family, Worst& worst) {
  const Big truth = norm_of(grad, p);
  if (!(truth <= Big(std::numeric_limits<double>::max())))
    return;  // the bound is for finite results
  for (const Implementation& implementation : implementations_with(&Implementation::grad_norm_p)) {
    Exec exec = implementation.exec;
    exec.num_threads = grad.size() > 1000 ? 3 : 1;
    const double norm = implementation.grad_norm_p(exec, grad, p);
    const double error = (abs(Big(norm) - truth) / truth).number();
    const double ratio = error / bound(grad.size(), p);
    if (ratio <= worst.ratio) continue;
    worst.ratio = ratio != ratio ? std::numeric_limits<double>::infinity() : ratio;
    worst.where = implementation.name + ", " + family + ", numel " + std::to_string(grad.size());
  }
}

void judge_all(const std::vector<std::size_t>& numels, std::size_t families) {
  for (double p : exponents) {
    Worst worst;
    for (std::size_t f = 0; f < families; ++f) {
      for (std::size_t numel : numels) {
        std::vector<float> grad(numel);
        for (std::size_t i = 0; i < numel; ++i) grad[i] = p_families[f].value(i);
        judge(grad, p, p_families[f].name, worst);
      }
    }
    std::printf("p-norm p = %g, numel up to %zu: largest error / bound %.3g (%s)\n", p,
                numels.back(), worst.ratio, worst.where.c_str());
    std::fflush(stdout);
    CHECK_MESSAGE(worst.ratio <= 1, worst.where);
  }
}

}  // namespace

TEST_CASE("p-norm: within its bound") {
  judge_all({1, 2, 3, 7, 16, 33, 1000, 1023, 1025, 5000}, std::size(p_families));
}

TEST_CASE("slow: p-norm: within its bound, a million elements") {
  judge_all({1, 2, 3, 31, 1000, 65537, 1'000'000}, std::size(p_families));
}

TEST_CASE("p-norm: neither powers nor sums overflow or vanish") {
  Worst worst;
  for (double p : {1e-3, 0.01, 100.0, 1e4, 1e300}) {
    for (float x : {0x1p-149F, 0x1.fffffep-127F, 1.0F, std::numeric_limits<float>::max()}) {
      judge({x}, p, "one element", worst);
      judge({x, -x}, p, "two elements", worst);
      judge({x, 0, -0.0F}, p, "with zeros", worst);
      judge({x, x / 2, x / 3}, p, "three elements", worst);
    }
  }
  CHECK_MESSAGE(worst.ratio <= 1, worst.where);
}
