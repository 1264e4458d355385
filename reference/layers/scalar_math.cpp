#include "reference/layers/scalar_math.hpp"

#include <limits>

namespace zeroproof::reference::scalar_math {

double log_f64(double x) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (x == 0) return -infinity;
  if (!(x > 0)) return std::numeric_limits<double>::quiet_NaN();
  if (x == infinity) return infinity;
  // A subnormal is made normal first, so that its exponent can be read from the bits.
  const bool subnormal = x < std::numeric_limits<double>::min();
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(subnormal ? x * 0x1p54 : x);
  // x = 2^n * m with m in [sqrt(1/2), sqrt(2)): the offset makes mantissas above sqrt(2) carry into
  // the exponent.
  const std::uint64_t above = bits - elementary::sqrt_half_bits;
  const std::int64_t n = static_cast<std::int64_t>(above) >> 52;
  const double m =
      std::bit_cast<double>((above & 0x000FFFFFFFFFFFFFU) + elementary::sqrt_half_bits);
  // ln m = 2 artanh(s) = 2 (s + s^3/3 + ... + s^21/21), |s| <= 0.1716; the omitted terms are below
  // 2^-60 of it.
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double p = 1.0 / 21.0;
  for (int k = 19; k >= 3; k -= 2) p = p * z + 1.0 / k;
  const double tail = 2.0 * s * (z * p);
  const double exponent = static_cast<double>(n - (subnormal ? 54 : 0));
  return exponent * elementary::ln2_high + (2.0 * s + (tail + exponent * elementary::ln2_low));
}

}  // namespace zeroproof::reference::scalar_math
