#include "common/step/portable_math64.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace zeroproof::portable_math64 {
namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// ln 2 in two parts. The first has 42 significant bits: its product with an integer below 2^11 is exact.
constexpr double ln2_high = 0x1.62e42fefa3800p-1;
constexpr double ln2_low = 0x1.ef35793c76730p-45;
constexpr double log2_e = 0x1.71547652b82fep+0;

/// pi in two parts, each rounded to nearest.
constexpr double pi_high = 0x1.921fb54442d18p+1;
constexpr double pi_low = 0x1.1a62633145c07p-53;

/// c[0] + x * (c[1] + x * (...)), innermost first.
template <std::size_t N>
double horner(const std::array<double, N>& c, double x) {
  double sum = c[N - 1];
  for (std::size_t i = N - 1; i-- > 0;) sum = c[i] + x * sum;
  return sum;
}

/// 2^n for -1022 <= n <= 1023.
double power_of_two(int n) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52);
}

/// (-1)^k pi^(2k+1) / (2k+1)!, k = 1..8. For z <= 1/4 the first term left out is below 2^-62 of the sum.
constexpr std::array<double, 8> sine = {
    -0x1.4abbce625be53p+2, 0x1.466bc6775aae2p+1,  -0x1.32d2cce62bd86p-1,  0x1.50783487ee782p-4,
    -0x1.e3074fde8871fp-8, 0x1.e8f434d018d63p-12, -0x1.6fadb9f155744p-16, 0x1.aaec32af93359p-21};

/// (-1)^k pi^(2k) / (2k)!, k = 1..9. For z <= 1/4 the first term left out is below 2^-67.
constexpr std::array<double, 9> cosine = {
    -0x1.3bd3cc9be45dep+2,  0x1.03c1f081b5ac4p+2,  -0x1.55d3c7e3cbffap+0,
    0x1.e1f506891babbp-3,   -0x1.a6d1f2a204a8cp-6, 0x1.f9d38a3763cc3p-10,
    -0x1.b6e24f44b128fp-14, 0x1.20c62c2f2d7f5p-18, -0x1.2a0c591af8314p-23};

/// 1 / k!, k = 2..14. For |r| <= 0.3466 the first term left out is below 2^-62.
constexpr std::array<double, 13> inverse_factorial = {1.0 / 2,
                                                      1.0 / 6,
                                                      1.0 / 24,
                                                      1.0 / 120,
                                                      1.0 / 720,
                                                      1.0 / 5040,
                                                      1.0 / 40320,
                                                      1.0 / 362880.0,
                                                      1.0 / 3628800.0,
                                                      1.0 / 39916800.0,
                                                      1.0 / 479001600.0,
                                                      1.0 / 6227020800.0,
                                                      1.0 / 87178291200.0};

/// 2 / (2k+1), k = 1..11. For |s| <= 0.1716 the first term left out of log(m) is below 2^-66.
constexpr std::array<double, 11> twice_odd_inverse = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,
                                                      2.0 / 11, 2.0 / 13, 2.0 / 15, 2.0 / 17,
                                                      2.0 / 19, 2.0 / 21, 2.0 / 23};

/// sin(pi z), 0 <= z <= 1/4, as z * q with q = pi - (...) in [2.82, pi]. In units of 2^-53 of q: 0.71 from
/// rounding q, 0.35 from the four roundings in its small part, which is at most 0.32. With the last product:
/// below 1.6 ulp.
double sin_pi_of_quarter(double z) {
  const double square = z * z;
  return z * (pi_high + (pi_low + square * horner(sine, square)));
}

/// cos(pi z), 0 <= z <= 1/4, as 1 + w with w in [-0.293, 0]. The square, the first coefficient, the last sum
/// and the product each move w by at most 2^-53 of itself, the inner terms by less than a tenth of that: 1.2
/// ulp (2^-53) of the result, and half a unit for the sum.
double cos_pi_of_quarter(double z) {
  const double square = z * z;
  return 1.0 + square * horner(cosine, square);
}

}  // namespace

double cos_pi(double x) {
  if (!(x >= 0.0 && x <= 1.0)) return not_a_number;
  const bool left_half = x <= 0.5;
  const double y =
      left_half ? x : 1.0 - x;  // exact, and so is 0.5 - y: the factor between the two is at most 2
  const double value = y <= 0.25 ? cos_pi_of_quarter(y) : sin_pi_of_quarter(0.5 - y);
  return left_half ? value : -value;
}

// exp(x) = 2^n * exp(r), n the integer nearest to x / ln 2. x - n * ln2_high is exact: both are multiples of
// 2^-54 (or n is 0) and the difference is below 1/2. Rounding r costs 2^-55, and so does rounding r + r^2
// (...); the second summand, at most 0.067, is off by three roundings. All in all 0.71 * 2^-53 next to a
// result of at least 0.7, and half a unit for 1 + p. A subnormal result is rounded once more, at the end, to
// units at least twice as large.
double exp(double x) {
  if (x != x) return x;
  if (x <= -746.0) return 0.0;
  if (x >= 710.0) return std::numeric_limits<double>::infinity();
  const double quotient = x * log2_e;
  const int n = static_cast<int>(quotient < 0.0 ? quotient - 0.5 : quotient + 0.5);
  const double r = (x - n * ln2_high) - n * ln2_low;
  const double p = r + (r * r) * horner(inverse_factorial, r);
  const int half =
      n / 2;  // -1075 <= n <= 1024: in two factors, none of which leaves the normal numbers
  return ((1.0 + p) * power_of_two(half)) * power_of_two(n - half);
}

// x = 2^n * m with m in [sqrt(1/2), sqrt(2)), f = m - 1 (exact), s = f / (2 + f): log(m) = 2 artanh(s),
// written as f - (h - s * (h + t)) with h = f^2 / 2, so that the leading term f carries no rounding. Next to
// log(m) the roundings of h (at most 0.086), of s * (h + t) (0.018, six roundings) and of their difference
// come to 0.27 * 2^-53; for n other than 0 the difference with f adds 2^-55. The result is then at least
// 0.3466 in magnitude: 1.1 ulp, and half a unit for the last sum.
double log(double x) {
  if (!(x > 0.0 && x <= std::numeric_limits<double>::max())) return not_a_number;
  int n = 0;
  if (x < std::numeric_limits<double>::min()) {
    x = x * 0x1p54;
    n = -54;
  }
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  n += static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFFU) | 0x3FF0000000000000U);
  if (m >= 0x1.6a09e667f3bcdp+0) {
    m = m * 0.5;
    n += 1;
  }
  const double f = m - 1.0;
  const double s = f / (2.0 + f);
  const double square = s * s;
  const double t = square * horner(twice_odd_inverse, square);
  const double h = 0.5 * f * f;
  return n * ln2_high - ((h - (s * (h + t) + n * ln2_low)) - f);
}

}  // namespace zeroproof::portable_math64
