#pragma once
// exp and log of R20 in fp64: the functions of common/step/portable_math64.hpp repeated operation
// by operation in a form that device code can call. That file documents their source and error
// bounds.

#include <cstdint>

#include "cuda/device/kernels/base/host_device.cuh"

namespace zeroproof::cuda::device {

/// c[0] + x * (c[1] + x * (...)). c: [N].
template <int N>
ZP_HOST_DEVICE inline double polynomial64(const double (&c)[N], double x) {
  double sum = c[N - 1];
  for (int i = N - 2; i >= 0; --i) sum = c[i] + x * sum;
  return sum;
}

/// 2^n for -1022 <= n <= 1023.
ZP_HOST_DEVICE inline double two_to_the(int n) {
  return double_of(static_cast<std::uint64_t>(static_cast<std::int64_t>(n) + 1023) << 52U);
}

inline constexpr double ln2_upper = 0x1.62e42fefa3800p-1;  ///< 42 bits of ln 2; then 53:
inline constexpr double ln2_lower = 0x1.ef35793c76730p-45;

/// exp(x) for every x.
ZP_HOST_DEVICE inline double exp64(double x) {
  constexpr double series[] = {1.0 / 2,
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
  if (x != x) return x;
  if (x <= -746.0) return 0.0;
  if (x >= 710.0) return double_of(0x7FF0000000000000ULL);
  const double quotient = x * 0x1.71547652b82fep+0;
  const int n = static_cast<int>(quotient < 0.0 ? quotient - 0.5 : quotient + 0.5);
  const double upper = static_cast<double>(n) * ln2_upper;
  const double lower = static_cast<double>(n) * ln2_lower;
  const double r = (x - upper) - lower;
  const double p = r + (r * r) * polynomial64(series, r);
  const int half = n / 2;
  return ((1.0 + p) * two_to_the(half)) * two_to_the(n - half);
}

/// log(x) for positive finite x, otherwise NaN.
ZP_HOST_DEVICE inline double log64(double x) {
  constexpr double series[] = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11, 2.0 / 13,
                               2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21, 2.0 / 23};
  if (!(x > 0.0) || !is_finite(x)) return double_of(0x7FF8000000000000ULL);
  int n = -1023;
  if (bits_of(x) < 0x0010000000000000ULL) {
    x = x * 0x1p54;
    n -= 54;
  }
  n += static_cast<int>(bits_of(x) >> 52U);
  double m = double_of((bits_of(x) & 0x000FFFFFFFFFFFFFULL) | 0x3FF0000000000000ULL);
  if (m >= 0x1.6a09e667f3bcdp+0) {
    m = m * 0.5;
    n += 1;
  }
  const double f = m - 1.0;
  const double s = f / (2.0 + f);
  const double square = s * s;
  const double t = square * polynomial64(series, square);
  const double h = 0.5 * f * f;
  const double upper = static_cast<double>(n) * ln2_upper;
  const double lower = static_cast<double>(n) * ln2_lower;
  return upper - ((h - (s * (h + t) + lower)) - f);
}

}  // namespace zeroproof::cuda::device
