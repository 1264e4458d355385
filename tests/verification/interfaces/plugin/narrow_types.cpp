// Conversions and arithmetic of zeroproof_kernel_types.h against the same functions of CUDA's headers, which also run on
// the host: this file is compiled with SIDE ours, SIDE cudas, and without SIDE as the program that compares the bits.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>

using Bits = unsigned short;

#ifdef SIDE

#ifdef OF_CUDA
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#else
#include <zeroproof_kernel_types.h>
#endif

namespace SIDE {

#define TWO(op)                                                                \
  Bits bf16_##op(Bits a, Bits b) {                                             \
    const auto x = __ushort_as_bfloat16(a), y = __ushort_as_bfloat16(b);       \
    return __bfloat16_as_ushort(__##op(x, y));                                 \
  }                                                                            \
  Bits half_##op(Bits a, Bits b) {                                             \
    return __half_as_ushort(__##op(__ushort_as_half(a), __ushort_as_half(b))); \
  }
TWO(hadd)
TWO(hsub)
TWO(hmul)
TWO(hdiv)
TWO(hmax)
TWO(hmin)
Bits bf16_of(float x) { return __bfloat16_as_ushort(__float2bfloat16_rn(x)); }
Bits bf16_cut(float x) { return __bfloat16_as_ushort(__float2bfloat16_rz(x)); }
Bits bf16_of_double(double x) { return __bfloat16_as_ushort(__double2bfloat16(x)); }
Bits half_of(float x) { return __half_as_ushort(__float2half_rn(x)); }
Bits half_cut(float x) { return __half_as_ushort(__float2half_rz(x)); }
Bits half_of_double(double x) { return __half_as_ushort(__double2half(x)); }
float wide_bf16(Bits x) { return __bfloat162float(__ushort_as_bfloat16(x)); }
float wide_half(Bits x) { return __half2float(__ushort_as_half(x)); }
int bf16_is(Bits x) {
  const auto value = __ushort_as_bfloat16(x);
  return __bfloat16_as_ushort(__habs(value)) + (__hisnan(value) ? 1 << 16 : 0) +
         (__hisinf(value) + 1) * (1 << 17);
}
int half_is(Bits x) {
  const auto value = __ushort_as_half(x);
  return __half_as_ushort(__habs(value)) + (__hisnan(value) ? 1 << 16 : 0) +
         (__hisinf(value) + 1) * (1 << 17);
}
Bits bf16_pair(float x, float y) {
  const auto pair = __floats2bfloat162_rn(x, y);
  return __bfloat16_as_ushort(__low2bfloat16(pair)) ^
         static_cast<Bits>(3 * __bfloat16_as_ushort(pair.y));
}
#ifndef OF_CUDA  // CUDA's is for the device alone
Bits bf16_fma(Bits a, Bits b, Bits c) {
  return __bfloat16_as_ushort(
      __hfma(__ushort_as_bfloat16(a), __ushort_as_bfloat16(b), __ushort_as_bfloat16(c)));
}
Bits half_fma(Bits a, Bits b, Bits c) {
  return __half_as_ushort(__hfma(__ushort_as_half(a), __ushort_as_half(b), __ushort_as_half(c)));
}
#endif

}  // namespace SIDE

#else

#define BOTH(result, name, ...) \
  namespace ours {              \
  result name(__VA_ARGS__);     \
  }                             \
  namespace cudas {             \
  result name(__VA_ARGS__);     \
  }
BOTH(Bits, bf16_hadd, Bits, Bits)
BOTH(Bits, bf16_hsub, Bits, Bits)
BOTH(Bits, bf16_hmul, Bits, Bits)
BOTH(Bits, bf16_hdiv, Bits, Bits)
BOTH(Bits, bf16_hmax, Bits, Bits)
BOTH(Bits, bf16_hmin, Bits, Bits)
BOTH(Bits, half_hadd, Bits, Bits)
BOTH(Bits, half_hsub, Bits, Bits)
BOTH(Bits, half_hmul, Bits, Bits)
BOTH(Bits, half_hdiv, Bits, Bits)
BOTH(Bits, half_hmax, Bits, Bits)
BOTH(Bits, half_hmin, Bits, Bits)
BOTH(Bits, bf16_of, float)
BOTH(Bits, bf16_cut, float)
BOTH(Bits, half_of, float)
BOTH(Bits, half_cut, float)
BOTH(Bits, bf16_of_double, double)
BOTH(Bits, half_of_double, double)
BOTH(float, wide_bf16, Bits)
BOTH(float, wide_half, Bits)
BOTH(int, bf16_is, Bits)
BOTH(int, half_is, Bits)
BOTH(Bits, bf16_pair, float, float)
BOTH(Bits, bf16_fma, Bits, Bits, Bits)
BOTH(Bits, half_fma, Bits, Bits, Bits)

namespace {

long differing = 0, compared = 0;

template <class To, class From>
To as(From from) {
  To to = {};
  static_assert(sizeof(To) >= sizeof(From));
  std::memcpy(&to, &from, sizeof from);
  return to;
}

/// The exact sum as a double that is on the same side of every number of 16 bits.
double sum(double product, double addend) {
  const __float128 exact = static_cast<__float128>(product) + addend;
  const auto rounded = static_cast<double>(exact);
  auto bits = as<std::uint64_t>(rounded);
  if (!std::isfinite(rounded) || rounded == exact || bits % 2 == 1) return rounded;
  bits += (exact > rounded) == (rounded > 0) ? 1 : -1;
  return as<double>(bits);
}

/// False where 113 digits do not hold the sum.
bool is_exact(double product, double addend) {
  const double ratio = std::fabs(product / addend);
  return !std::isfinite(ratio) || ratio == 0 || (ratio > 1e-18 && ratio < 1e18);
}

template <class Result>
void compare(const char* name, Result mine, Result theirs) {
  const auto x = as<std::uint32_t>(mine), y = as<std::uint32_t>(theirs);
  ++compared;
  if (x != y && differing++ < 10) std::printf("FAIL: %s %x, CUDA's %x\n", name, x, y);
}

#define COMPARE(name, ...) compare(#name, ours::name(__VA_ARGS__), cudas::name(__VA_ARGS__))
#define BOTH_FORMATS(name, ...)      \
  COMPARE(bf16_##name, __VA_ARGS__); \
  COMPARE(half_##name, __VA_ARGS__)

void compare_numbers(std::uint32_t word) {
  const auto x = as<float>(word);
  BOTH_FORMATS(of, x);
  BOTH_FORMATS(cut, x);
}

}  // namespace

namespace cudas {
Bits bf16_fma(Bits a, Bits b, Bits c) {
  return bf16_of_double(sum(static_cast<double>(wide_bf16(a)) * wide_bf16(b), wide_bf16(c)));
}
Bits half_fma(Bits a, Bits b, Bits c) {
  return half_of_double(sum(static_cast<double>(wide_half(a)) * wide_half(b), wide_half(c)));
}
}  // namespace cudas

int main() {
  for (std::uint64_t word = 0; word < std::uint64_t{1} << 32; word += 977)
    compare_numbers(static_cast<std::uint32_t>(word));
  for (std::uint32_t high = 0; high < 65536; ++high) {
    const auto bits = static_cast<Bits>(high);
    COMPARE(wide_bf16, bits);
    COMPARE(wide_half, bits);
    BOTH_FORMATS(is, bits);
    for (const std::uint32_t low : {0x7FFFU, 0x8000U, 0x8001U})
      compare_numbers(high << 16 | low);  // ties of bf16
  }
  for (std::uint32_t word = 0; word < 1U << 20; ++word) compare_numbers(word << 12);  // and of half
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000000; ++i) {
    const std::uint64_t drawn = random();
    const auto a = static_cast<Bits>(drawn), b = static_cast<Bits>(drawn >> 16),
               c = static_cast<Bits>(drawn >> 32);
    BOTH_FORMATS(hadd, a, b);
    BOTH_FORMATS(hsub, a, b);
    BOTH_FORMATS(hmul, a, b);
    BOTH_FORMATS(hdiv, a, b);
    BOTH_FORMATS(hmax, a, b);
    BOTH_FORMATS(hmin, a, b);
    COMPARE(half_fma, a, b, c);
    const double product = static_cast<double>(ours::wide_bf16(a)) * ours::wide_bf16(b);
    if (is_exact(product, ours::wide_bf16(c))) COMPARE(bf16_fma, a, b, c);
    const std::uint64_t exponent = 1023 - 160 + drawn % 320,
                        cut = ~std::uint64_t{0} << random() % 52;
    const auto x = as<double>((random() & 0x800FFFFFFFFFFFFFULL & cut) | exponent << 52);
    BOTH_FORMATS(of_double, x);
    COMPARE(bf16_pair, static_cast<float>(x), static_cast<float>(-x / 3));
  }
  std::printf("%s: %ld of %ld results differ from CUDA's\n", differing == 0 ? "ok" : "FAIL",
              differing, compared);
  return differing == 0 ? 0 : 1;
}

#endif
