#pragma once
// The elementary functions of R23 for one element; every line is rounded once (R2).

#include "common/contracts/elementary.hpp"
#include "cuda/device/kernels/base/host_device.cuh"

namespace zeroproof::cuda::device {

constexpr double inverse_factorial(int k) {
  double factorial = 1.0;  // exact up to 18!
  for (int i = 2; i <= k; ++i) factorial *= i;
  return 1.0 / factorial;
}

// Coefficients as separate constants: device code may use those, but no host array and no host
// function.

/// 1 / (k + 1)!
struct ExpSeries {
  static constexpr int last = 12;
  template <int k>
  static constexpr double at = inverse_factorial(k + 1);
};

/// 1 / (2 k + 3)
struct LogSeries {
  static constexpr int last = 9;
  template <int k>
  static constexpr double at = 1.0 / (2 * k + 3);
};

struct ErfSmall {
  static constexpr int last = 12;
  template <int k>
  static constexpr double at = elementary::erf_small[k];
};

struct ErfMiddle {
  static constexpr int last = 20;
  template <int k>
  static constexpr double at = elementary::erf_middle[k];
};

struct ErfLarge {
  static constexpr int last = 20;
  template <int k>
  static constexpr double at = elementary::erf_large[k];
};

/// at(k) + at(k + 1) x + ..., evaluated from the last coefficient down.
template <class Series, int k = 0>
ZP_HOST_DEVICE inline double series(double x) {
  constexpr double coefficient = Series::template at<k>;
  if constexpr (k == Series::last) {
    return coefficient;
  } else {
    const double product = series<Series, k + 1>(x) * x;
    return product + coefficient;
  }
}

/// exp(z) = power * (1 + q), power = 2^n.
struct ReducedExp {
  double power;
  double q;
};

/// |z| below 700, or NaN: then q is NaN.
ZP_HOST_DEVICE inline ReducedExp reduced_exp(double z) {
  const double scaled = z * elementary::log2_e;
  const double t = scaled + elementary::round_shift;
  const double n = t - elementary::round_shift;
  const double high = n * elementary::ln2_high;
  const double rest = z - high;
  const double low = n * elementary::ln2_low;
  const double r = rest - low;
  const double q = r * series<ExpSeries>(r);
  // The last 12 bits of t are those of n; adding 1023 gives the exponent field of 2^n.
  return {double_of((bits_of(t) << 52) + 0x3FF0000000000000ULL), q};
}

ZP_HOST_DEVICE inline float magnitude_of(float x) { return float_of(bits_of(x) & ~sign_bit); }

/// magnitude (not negative, or NaN) with the sign of x.
ZP_HOST_DEVICE inline float signed_as(float x, float magnitude) {
  return float_of(bits_of(magnitude) | (bits_of(x) & sign_bit));
}

/// Comparisons that leave a NaN unchanged (R4).
ZP_HOST_DEVICE inline float not_above(float limit, float x) { return x > limit ? limit : x; }
ZP_HOST_DEVICE inline float not_below(float limit, float x) { return x < limit ? limit : x; }

ZP_HOST_DEVICE inline float elementary_exp_of(float x) {
  const ReducedExp parts =
      reduced_exp(static_cast<double>(not_above(89.0F, not_below(-105.0F, x))));
  const double sum = 1.0 + parts.q;
  const double e = parts.power * sum;
  return static_cast<float>(e);
}

ZP_HOST_DEVICE inline float elementary_tanh_of(float x) {
  const double a = static_cast<double>(not_above(22.0F, magnitude_of(x)));
  const ReducedExp parts = reduced_exp(2.0 * a);
  const double grown = parts.power * parts.q;
  const double less = parts.power - 1.0;
  const double p = grown + less;
  const double more = p + 2.0;
  const double w = p / more;
  return signed_as(x, static_cast<float>(w));
}

ZP_HOST_DEVICE inline float elementary_sigmoid_of(float x) {
  const ReducedExp parts =
      reduced_exp(static_cast<double>(not_above(105.0F, not_below(-105.0F, -x))));
  const double sum = 1.0 + parts.q;
  const double e = parts.power * sum;
  const double more = 1.0 + e;
  const double w = 1.0 / more;
  return static_cast<float>(w);
}

ZP_HOST_DEVICE inline float elementary_erf_of(float x) {
  const double a = static_cast<double>(not_above(4.0F, magnitude_of(x)));
  double e;
  if (a < 1.0) {
    const double z = a * a;
    const double added = a * series<ErfSmall>(z);
    e = a + added;
  } else if (a < 2.5) {
    e = series<ErfMiddle>(a - 1.75);
  } else {  // a NaN too
    e = series<ErfLarge>(a - 3.25);
  }
  return signed_as(x, static_cast<float>(e));
}

ZP_HOST_DEVICE inline float elementary_log_of(float x) {
  if (x == 0.0F) return float_of(0xFF800000U);
  if (x < 0.0F) return float_of(0x7FFFFFFFU);
  if (!is_finite(x)) return x;  // infinity, NaN
  const std::uint64_t b = bits_of(static_cast<double>(x)) - elementary::sqrt_half_bits;
  const double n = static_cast<double>(static_cast<int>(static_cast<std::int64_t>(b) >> 52));
  const double m = double_of((b & 0xFFFFFFFFFFFFFULL) + elementary::sqrt_half_bits);
  const double less = m - 1.0;
  const double more = m + 1.0;
  const double s = less / more;
  const double z = s * s;
  const double u = 2.0 * s;
  const double tail = z * series<LogSeries>(z);
  const double v = u * tail;
  const double n_low = n * elementary::ln2_low;
  const double low = v + n_low;
  const double rest = u + low;
  const double n_high = n * elementary::ln2_high;
  return static_cast<float>(n_high + rest);
}

}  // namespace zeroproof::cuda::device
