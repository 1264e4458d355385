/**
 * \file
 * CUDA's vector types and 16-bit numbers for the simulated device; zeroproof_kernel.h includes it.
 *
 * Numbers are rounded to bf16 and half once, to nearest even, results beyond the largest number to infinity, and NaN to
 * 0x7fff, as cuda_bf16.hpp (__internal_float2bfloat16) and cuda_fp16.hpp (__internal_float2half) of CUDA 13.0 do, and
 * cvt of PTX ISA. Widening a NaN keeps its bits in bf16; of half it gives 0x7fffff below the sign.
 */
#ifndef ZEROPROOF_KERNEL_TYPES_H
#define ZEROPROOF_KERNEL_TYPES_H

#include <cmath>
#include <cstdint>
#include <cstring>

#define ZEROPROOF_VECTORS(T, name, align2, align4)                   \
  struct name##1 {                                                   \
    T x;                                                             \
  };                                                                 \
  struct alignas(align2) name##2 {                                   \
    T x, y;                                                          \
  };                                                                 \
  struct name##3 {                                                   \
    T x, y, z;                                                       \
  };                                                                 \
  struct alignas(align4) name##4 {                                   \
    T x, y, z, w;                                                    \
  };                                                                 \
  inline name##1 make_##name##1(T x) { return {x}; }                 \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; }         \
  inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; } \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
ZEROPROOF_VECTORS(signed char, char, 2, 4)
ZEROPROOF_VECTORS(unsigned char, uchar, 2, 4)
ZEROPROOF_VECTORS(short, short, 4, 8)
ZEROPROOF_VECTORS(unsigned short, ushort, 4, 8)
ZEROPROOF_VECTORS(int, int, 8, 16)
ZEROPROOF_VECTORS(unsigned, uint, 8, 16)
ZEROPROOF_VECTORS(long long, longlong, 16, 16)
ZEROPROOF_VECTORS(unsigned long long, ulonglong, 16, 16)
ZEROPROOF_VECTORS(float, float, 8, 16)
ZEROPROOF_VECTORS(double, double, 16, 16)
#undef ZEROPROOF_VECTORS

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned nx = 1, unsigned ny = 1, unsigned nz = 1) : x(nx), y(ny), z(nz) {}
};

template <class To, class From>
To zeroproof_bits(From value) {
  static_assert(sizeof(To) == sizeof(From), "");
  To bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

/** A number of 16 bits, `digits` of them in the significand with its hidden one. */
template <int exponent_bits, int digits>
struct zeroproof_narrow {
  unsigned short bits;

  static constexpr int bias = (1 << (exponent_bits - 1)) - 1;
  static constexpr unsigned short infinity = ((1 << exponent_bits) - 1) << (digits - 1);
  static constexpr unsigned short nan = 0x7FFF;

  zeroproof_narrow() = default;
  zeroproof_narrow(float x) : bits(round(x)) {}
  zeroproof_narrow(double x) : bits(round(x)) {}
  zeroproof_narrow(int x) : bits(round(x)) {}
  zeroproof_narrow(unsigned x) : bits(round(x)) {}

  static zeroproof_narrow of_bits(unsigned short bits) {
    zeroproof_narrow x;
    x.bits = bits;
    return x;
  }

  /** To nearest even, or toward zero. */
  static unsigned short round(double x, bool toward_zero = false) {
    if (x != x) return nan;
    const unsigned sign = std::signbit(x) ? 0x8000U : 0;
    if (std::isinf(x)) return (unsigned short)(sign | infinity);
    const int own = (int)(zeroproof_bits<uint64_t>(x) >> 52 & 0x7FF) - 1023;
    const int exponent = own < 1 - bias ? 1 - bias : own;
    const double scaled = std::ldexp(std::fabs(x), digits - 1 - exponent); /* exact */
    auto whole = (unsigned)scaled;
    const double rest = scaled - whole;
    if (!toward_zero && (rest > 0.5 || (rest == 0.5 && whole % 2 == 1))) ++whole;
    const unsigned code = ((unsigned)(exponent - 1 + bias) << (digits - 1)) + whole;
    if (code < infinity) return (unsigned short)(sign | code);
    return (unsigned short)(sign | (toward_zero ? infinity - 1U : infinity));
  }

  operator float() const {
    if constexpr (digits == 8) return zeroproof_bits<float>((unsigned)bits << 16);
    const unsigned sign = (bits & 0x8000U) << 16, code = bits & 0x7FFFU;
    if (code > infinity) return zeroproof_bits<float>(0x7FFFFFFFU);
    if (code == infinity) return zeroproof_bits<float>(sign | 0x7F800000U);
    const unsigned field = code >> (digits - 1), hidden = 1U << (digits - 1);
    const unsigned significand = field == 0 ? code : (code & (hidden - 1)) | hidden;
    const float magnitude =
        std::ldexp((float)significand, (field == 0 ? 1 : (int)field) - bias - (digits - 1));
    return sign != 0 ? -magnitude : magnitude;
  }

  /* A result in double is rounded to 16 bits as the exact one is: it has more than twice the digits. */
  friend zeroproof_narrow operator+(zeroproof_narrow a, zeroproof_narrow b) {
    return (double)(float)a + (float)b;
  }
  friend zeroproof_narrow operator-(zeroproof_narrow a, zeroproof_narrow b) {
    return (double)(float)a - (float)b;
  }
  friend zeroproof_narrow operator*(zeroproof_narrow a, zeroproof_narrow b) {
    return (double)(float)a * (float)b;
  }
  friend zeroproof_narrow operator/(zeroproof_narrow a, zeroproof_narrow b) {
    return (double)(float)a / (float)b;
  }
  friend zeroproof_narrow operator-(zeroproof_narrow a) { return of_bits(a.bits ^ 0x8000U); }
  zeroproof_narrow& operator+=(zeroproof_narrow b) { return *this = *this + b; }
  zeroproof_narrow& operator-=(zeroproof_narrow b) { return *this = *this - b; }
  zeroproof_narrow& operator*=(zeroproof_narrow b) { return *this = *this * b; }
  zeroproof_narrow& operator/=(zeroproof_narrow b) { return *this = *this / b; }
  friend bool operator==(zeroproof_narrow a, zeroproof_narrow b) { return (float)a == (float)b; }
  friend bool operator!=(zeroproof_narrow a, zeroproof_narrow b) { return (float)a != (float)b; }
  friend bool operator<(zeroproof_narrow a, zeroproof_narrow b) { return (float)a < (float)b; }
  friend bool operator<=(zeroproof_narrow a, zeroproof_narrow b) { return (float)a <= (float)b; }
  friend bool operator>(zeroproof_narrow a, zeroproof_narrow b) { return (float)a > (float)b; }
  friend bool operator>=(zeroproof_narrow a, zeroproof_narrow b) { return (float)a >= (float)b; }

  friend zeroproof_narrow __hadd(zeroproof_narrow a, zeroproof_narrow b) { return a + b; }
  friend zeroproof_narrow __hsub(zeroproof_narrow a, zeroproof_narrow b) { return a - b; }
  friend zeroproof_narrow __hmul(zeroproof_narrow a, zeroproof_narrow b) { return a * b; }
  friend zeroproof_narrow __hdiv(zeroproof_narrow a, zeroproof_narrow b) { return a / b; }
  friend zeroproof_narrow __hneg(zeroproof_narrow a) { return -a; }
  friend zeroproof_narrow __habs(zeroproof_narrow a) {
    return of_bits(__hisnan(a) ? nan : a.bits & 0x7FFFU);
  }
  friend zeroproof_narrow hsqrt(zeroproof_narrow a) { return std::sqrt((double)(float)a); }

  /** Rounded once: the sum is made odd where double rounded it, so that it is on the same side of every tie. */
  friend zeroproof_narrow __hfma(zeroproof_narrow a, zeroproof_narrow b, zeroproof_narrow c) {
    const double product = (double)(float)a * (float)b, addend = (float)c, sum = product + addend;
    const double part = sum - product, rest = (product - (sum - part)) + (addend - part);
    auto bits = zeroproof_bits<uint64_t>(sum);
    if (!std::isfinite(sum) || rest == 0 || bits % 2 == 1) return sum;
    bits += (rest > 0) == (sum > 0) ? 1 : -1;
    return zeroproof_bits<double>(bits);
  }

  friend bool __hisnan(zeroproof_narrow a) { return (a.bits & 0x7FFFU) > infinity; }
  friend int __hisinf(zeroproof_narrow a) {
    return (a.bits & 0x7FFFU) != infinity ? 0 : a.bits == infinity ? 1 : -1;
  }
  /** The other one if one is NaN; +0 is above -0. */
  friend zeroproof_narrow __hmax(zeroproof_narrow a, zeroproof_narrow b) {
    return a.extreme(b, false);
  }
  friend zeroproof_narrow __hmin(zeroproof_narrow a, zeroproof_narrow b) {
    return a.extreme(b, true);
  }
  friend bool __heq(zeroproof_narrow a, zeroproof_narrow b) { return a == b; }
  friend bool __hne(zeroproof_narrow a, zeroproof_narrow b) { return a < b || a > b; }
  friend bool __hlt(zeroproof_narrow a, zeroproof_narrow b) { return a < b; }
  friend bool __hle(zeroproof_narrow a, zeroproof_narrow b) { return a <= b; }
  friend bool __hgt(zeroproof_narrow a, zeroproof_narrow b) { return a > b; }
  friend bool __hge(zeroproof_narrow a, zeroproof_narrow b) { return a >= b; }

 private:
  zeroproof_narrow extreme(zeroproof_narrow b, bool least) const {
    if (__hisnan(*this)) return __hisnan(b) ? of_bits(nan) : b;
    if (__hisnan(b)) return *this;
    const auto rank = [](zeroproof_narrow x) {
      return (x.bits & 0x8000) != 0 ? 0x7FFF - (int)x.bits : (int)x.bits;
    };
    return (rank(*this) < rank(b)) == least ? *this : b;
  }
};

/** Two of them. */
template <class T>
struct alignas(4) zeroproof_pair {
  T x, y;

  friend zeroproof_pair operator+(zeroproof_pair a, zeroproof_pair b) {
    return {a.x + b.x, a.y + b.y};
  }
  friend zeroproof_pair operator-(zeroproof_pair a, zeroproof_pair b) {
    return {a.x - b.x, a.y - b.y};
  }
  friend zeroproof_pair operator*(zeroproof_pair a, zeroproof_pair b) {
    return {a.x * b.x, a.y * b.y};
  }
  friend zeroproof_pair operator/(zeroproof_pair a, zeroproof_pair b) {
    return {a.x / b.x, a.y / b.y};
  }
  friend zeroproof_pair __hadd2(zeroproof_pair a, zeroproof_pair b) { return a + b; }
  friend zeroproof_pair __hsub2(zeroproof_pair a, zeroproof_pair b) { return a - b; }
  friend zeroproof_pair __hmul2(zeroproof_pair a, zeroproof_pair b) { return a * b; }
  friend zeroproof_pair __h2div(zeroproof_pair a, zeroproof_pair b) { return a / b; }
  friend zeroproof_pair __hneg2(zeroproof_pair a) { return {-a.x, -a.y}; }
  friend zeroproof_pair __habs2(zeroproof_pair a) { return {__habs(a.x), __habs(a.y)}; }
  friend zeroproof_pair __hmax2(zeroproof_pair a, zeroproof_pair b) {
    return {__hmax(a.x, b.x), __hmax(a.y, b.y)};
  }
  friend zeroproof_pair __hmin2(zeroproof_pair a, zeroproof_pair b) {
    return {__hmin(a.x, b.x), __hmin(a.y, b.y)};
  }
  friend zeroproof_pair h2sqrt(zeroproof_pair a) { return {hsqrt(a.x), hsqrt(a.y)}; }
  friend zeroproof_pair __hfma2(zeroproof_pair a, zeroproof_pair b, zeroproof_pair c) {
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
  }
  friend float __low2float(zeroproof_pair a) { return a.x; }
  friend float __high2float(zeroproof_pair a) { return a.y; }
};

using __nv_bfloat16 = zeroproof_narrow<8, 8>;
using __half = zeroproof_narrow<5, 11>;
using __nv_bfloat162 = zeroproof_pair<__nv_bfloat16>;
using __half2 = zeroproof_pair<__half>;
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;
using half = __half;
using half2 = __half2;

/* CUDA's names of the conversions: T one number, of `name`, and T2 two of them, of `name2`. */
#define ZEROPROOF_CONVERSIONS(T, T2, name, name2)                                 \
  inline T __float2##name(float x) { return x; }                                  \
  inline T __float2##name##_rn(float x) { return x; }                             \
  inline T __float2##name##_rz(float x) { return T::of_bits(T::round(x, true)); } \
  inline T __double2##name(double x) { return x; }                                \
  inline float __##name##2float(T x) { return x; }                                \
  inline T2 __float2##name2##_rn(float x) { return {x, x}; }                      \
  inline T2 __floats2##name2##_rn(float x, float y) { return {x, y}; }            \
  inline T2 __float22##name2##_rn(float2 x) { return {x.x, x.y}; }                \
  inline float2 __##name2##2float2(T2 x) { return {x.x, x.y}; }                   \
  inline T2 __halves2##name2(T x, T y) { return {x, y}; }                         \
  inline T2 __##name##2##name2(T x) { return {x, x}; }                            \
  inline T2 make_##name2(T x, T y) { return {x, y}; }                             \
  inline T __low2##name(T2 x) { return x.x; }                                     \
  inline T __high2##name(T2 x) { return x.y; }                                    \
  inline unsigned short __##name##_as_ushort(T x) { return x.bits; }              \
  inline T __ushort_as_##name(unsigned short x) { return T::of_bits(x); }
ZEROPROOF_CONVERSIONS(__nv_bfloat16, __nv_bfloat162, bfloat16, bfloat162)
ZEROPROOF_CONVERSIONS(__half, __half2, half, half2)
#undef ZEROPROOF_CONVERSIONS

#endif
