#include "common/step/portable_math64.hpp"

#include <doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/base/philox.hpp"

namespace portable_math64_test {

using zeroproof::Philox;
namespace pm = zeroproof::portable_math64;

namespace {

// At least 11 bits wider than fp64, with far smaller exponents; nothing of libm is used on it.
#ifdef __SIZEOF_FLOAT128__
__extension__ using Wide = __float128;
#else
using Wide = long double;
#endif

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double smallest = std::numeric_limits<double>::denorm_min();
constexpr double largest = std::numeric_limits<double>::max();

// Nearest doubles of pi and ln 2, of their remainders, and so on.
const Wide wide_pi =
    (Wide{-0x1.f1976b7ed8fbcp-109} + Wide{0x1.1a62633145c07p-53}) + Wide{0x1.921fb54442d18p+1};
const Wide wide_ln2 =
    (Wide{0x1.7b57a079a1934p-111} + Wide{0x1.abc9e3b39803fp-56}) + Wide{0x1.62e42fefa39efp-1};

Wide magnitude(Wide x) { return x < 0 ? -x : x; }

/// first + first * f(1) + first * f(1) * f(2) + ..., until nothing changes.
template <class Factor>
Wide series(Wide first, const Factor& factor) {
  Wide sum = first;
  Wide term = first;
  for (int k = 1; k < 400; ++k) {
    term = term * factor(k);
    const Wide next = sum + term;
    if (next == sum) break;
    sum = next;
  }
  return sum;
}

Wide wide_cos_pi(double x) {
  const bool left = x <= 0.5;
  const double from_end = left ? x : 1 - x;  // exact, as is 0.5 - from_end where the sine is used
  const Wide y = wide_pi * from_end;
  const Wide z = wide_pi * (0.5 - from_end);
  const Wide value = from_end < 0.25
                         ? series(1, [&](int k) { return -y * y / Wide((2 * k - 1) * (2 * k)); })
                         : series(z, [&](int k) { return -z * z / Wide((2 * k) * (2 * k + 1)); });
  return left ? value : -value;
}

Wide wide_exp(Wide x) {
  const int n = static_cast<int>(std::floor(static_cast<double>(x / wide_ln2)));
  const Wide r = x - n * wide_ln2;
  const Wide value = series(1, [&](int k) { return r / Wide(k); });
  return value * Wide{std::ldexp(1.0, n / 2)} * Wide{std::ldexp(1.0, n - n / 2)};
}

/// One step of Halley's method from libm's value: its error enters in the third power.
Wide wide_log(double x) {
  const Wide guess = std::log(x);
  const Wide value = wide_exp(guess);
  return guess + 2 * ((Wide{x} - value) / (Wide{x} + value));
}

/// Distance in units in the last place of the exact result; infinity for NaN.
double ulps(double got, Wide exact) {
  if (!(std::fabs(got) <= largest)) return infinity;
  if (exact == 0) return got == 0 ? 0 : infinity;
  int exponent = 0;
  std::frexp(static_cast<double>(magnitude(exact)), &exponent);
  // A result just below a power of two may round up to it; its unit is then the smaller one.
  if (magnitude(exact) < Wide{std::ldexp(0.5, exponent)}) --exponent;
  const double unit = std::ldexp(1.0, std::max(exponent - 53, -1074));
  return static_cast<double>(magnitude(Wide{got} - exact) / Wide{unit});
}

double random_unit(const Philox& philox, std::uint64_t index) {  // [0, 1)
  return static_cast<double>(std::uint64_t{philox.word(2 * index)} << 21 ^
                             philox.word(2 * index + 1)) *
         0x1p-53;
}

/// 60000 even steps over [low, high], 60000 random values, and every edge with 40 neighbours on both sides.
std::vector<double> arguments(double low, double high, const std::vector<double>& edges) {
  std::vector<double> all;
  const Philox philox(11);
  for (int i = 0; i <= 60000; ++i) all.push_back(low + (high - low) * (i / 60000.0));
  for (std::uint64_t i = 0; i < 60000; ++i)
    all.push_back(low + (high - low) * random_unit(philox, i));
  for (const double edge : edges) {
    double up = edge;
    double down = edge;
    for (int i = 0; i < 40; ++i) {
      all.push_back(up);
      all.push_back(down);
      up = std::nextafter(up, infinity);
      down = std::nextafter(down, -infinity);
    }
  }
  all.erase(std::remove_if(all.begin(), all.end(), [&](double x) { return x < low || x > high; }),
            all.end());
  return all;
}

std::uint64_t bits(double x) { return std::bit_cast<std::uint64_t>(x); }

}  // namespace

TEST_CASE(
    "portable_math64: cos_pi is within 2 ulp, odd around 1/2 and exact where it is 1, 0 and -1") {
  double worst = 0;
  bool odd = true;
  bool inside = true;
  std::vector<double> all = arguments(0, 1, {0, 0.25, 0.5, 0.75, 1});
  for (int e = 1; e < 1074; ++e) all.push_back(std::ldexp(1.3, -e));
  for (const double x : all) {
    const double y = pm::cos_pi(x);
    worst = std::max(worst, ulps(y, wide_cos_pi(x)));
    inside = inside && y >= -1 && y <= 1;
    if (1 - (1 - x) == x) odd = odd && bits(pm::cos_pi(1 - x) + 0.0) == bits(0.0 - y);
  }
  CAPTURE(worst);
  CHECK(worst < 2);
  CHECK(odd);
  CHECK(inside);
  CHECK(bits(pm::cos_pi(0)) == bits(1.0));
  CHECK(bits(pm::cos_pi(-0.0)) == bits(1.0));
  CHECK(bits(pm::cos_pi(0.5)) == bits(0.0));
  CHECK(bits(pm::cos_pi(1)) == bits(-1.0));
  for (const double x : {-smallest, std::nextafter(1.0, 2.0), infinity, -infinity, std::nan("")}) {
    CAPTURE(x);
    CHECK(std::isnan(pm::cos_pi(x)));
  }
}

TEST_CASE(
    "portable_math64: exp is within 1.5 ulp from the smallest subnormal result to the largest "
    "finite one") {
  double worst = 0;
  std::vector<double> edges = {0, -708.3964185322641, -744.4400719213812, -745.1332191019411,
                               709.782712893384};
  for (int n = -1075; n <= 1024; n += 25)
    edges.push_back((n + 0.5) * 0.6931471805599453);  // where n changes
  for (const double x : arguments(-745.1, 709.78, edges))
    worst = std::max(worst, ulps(pm::exp(x), wide_exp(x)));
  for (const double x : arguments(-1, 1, {-0.34657359027997264, 0.34657359027997264})) {
    worst = std::max(worst, ulps(pm::exp(x), wide_exp(x)));
  }
  for (int e = 1; e < 1074; ++e)
    worst = std::max(worst, ulps(pm::exp(-std::ldexp(1.3, -e)), wide_exp(-std::ldexp(1.3, -e))));
  CAPTURE(worst);
  CHECK(worst < 1.5);
  CHECK(bits(pm::exp(0)) == bits(1.0));
  CHECK(bits(pm::exp(-0.0)) == bits(1.0));
  CHECK(pm::exp(-745.0) == smallest);
  CHECK(pm::exp(-745.2) == 0);
  CHECK(pm::exp(709.78) < infinity);
  CHECK(pm::exp(709.79) == infinity);
  for (const double x : {-746.0, -1e300, -largest, -infinity}) CHECK(bits(pm::exp(x)) == bits(0.0));
  for (const double x : {710.0, 1e300, largest, infinity}) CHECK(pm::exp(x) == infinity);
  CHECK(std::isnan(pm::exp(std::nan(""))));
  CHECK(pm::exp(pm::log(0.5)) == 0.5);  // wsd exponential ends exactly at the floor
}

TEST_CASE(
    "portable_math64: log is within 2 ulp over all positive numbers, subnormal ones included") {
  double worst = 0;
  const Philox philox(12);
  const double root = std::sqrt(0.5);
  for (const double x : arguments(0.5, 2, {0.5, root, 1, 2 * root, 2}))
    worst = std::max(worst, ulps(pm::log(x), wide_log(x)));
  for (std::uint64_t i = 0; i < 60000; ++i) {  // random significands, every exponent
    const double x =
        std::ldexp(0.5 + 0.5 * random_unit(philox, i), static_cast<int>(i % 2098) - 1073);
    worst = std::max(worst, ulps(pm::log(x), wide_log(x)));
  }
  for (const double x : {smallest, 3 * smallest, std::numeric_limits<double>::min(), largest}) {
    worst = std::max(worst, ulps(pm::log(x), wide_log(x)));
  }
  CAPTURE(worst);
  CHECK(worst < 2);
  CHECK(bits(pm::log(1)) == bits(0.0));
  for (const double x : {0.0, -0.0, -1.0, -smallest, infinity, -infinity, std::nan("")}) {
    CAPTURE(x);
    CHECK(std::isnan(pm::log(x)));
  }
}

// Over compilers, optimisation levels and instruction sets: a fold of the bits of 3 * 4096 results.
TEST_CASE("portable_math64: pinned bits") {
  CHECK(bits(pm::cos_pi(0.1)) == 0x3FEE6F0E134454FFU);
  CHECK(bits(pm::cos_pi(0.3)) == 0x3FE2CF2304755A5EU);
  CHECK(bits(pm::exp(-1)) == 0x3FD78B56362CEF38U);
  CHECK(bits(pm::exp(-700.1)) == 0x00CF52F93DF4DFCFU);
  CHECK(bits(pm::log(0.01)) == 0xC0126BB1BBB55516U);
  CHECK(bits(pm::log(3)) == 0x3FF193EA7AAD030AU);
  const Philox philox(13);
  std::uint64_t fold = 0;
  const auto add = [&](double value) { fold = (fold ^ bits(value)) * 0x100000001B3U; };
  for (std::uint64_t i = 0; i < 4096; ++i) {
    const double x = random_unit(philox, i);
    add(pm::cos_pi(x));
    add(pm::exp(-745 * x));
    add(pm::log(x));
  }
  CHECK(fold == 0xD9AE3558B8D75ED6U);
}

}  // namespace portable_math64_test
