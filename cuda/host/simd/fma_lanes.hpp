#pragma once
// fma(x, y, s) of R27 for a register of floats, rounded once in every instruction set. x86-64 without FMA computes it
// in fp64.

#include "cuda/host/simd/variant.hpp"

namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE {

#if defined(__AVX512F__)

using FmaLanes = __m512;
using FmaFactor = __m512;  ///< the same values, in the form of a factor
inline constexpr int fma_width = 16;
inline FmaLanes fma_load(const float* from) { return _mm512_loadu_ps(from); }
inline void fma_store(float* to, FmaLanes lanes) { _mm512_storeu_ps(to, lanes); }
inline FmaFactor fma_factor(const float* from) { return _mm512_loadu_ps(from); }
inline FmaFactor fma_broadcast(float value) { return _mm512_set1_ps(value); }
inline FmaLanes fma_zero() { return _mm512_setzero_ps(); }
inline FmaLanes fma_add(FmaLanes a, FmaLanes b) { return _mm512_add_ps(a, b); }
inline FmaLanes matrix_product_fma(FmaFactor x, FmaFactor y, FmaLanes s) {
  return _mm512_fmadd_ps(x, y, s);
}
#if defined(__AVX512BF16__)
/// Two steps of 16 chains: the upper halves of x and y are the values of bf16 of the first term, the lower halves those
/// of the second. Each is rounded once, but subnormal values and results count as zero.
inline FmaLanes matrix_product_pair(FmaFactor x, FmaFactor y, FmaLanes s) {
  const auto pairs = [](FmaFactor words) { return __builtin_bit_cast(__m512bh, words); };
  return _mm512_dpbf16_ps(s, pairs(x), pairs(y));
}
#endif

#elif defined(__FMA__)

using FmaLanes = __m256;
using FmaFactor = __m256;
inline constexpr int fma_width = 8;
inline FmaLanes fma_load(const float* from) { return _mm256_loadu_ps(from); }
inline void fma_store(float* to, FmaLanes lanes) { _mm256_storeu_ps(to, lanes); }
inline FmaFactor fma_factor(const float* from) { return _mm256_loadu_ps(from); }
inline FmaFactor fma_broadcast(float value) { return _mm256_set1_ps(value); }
inline FmaLanes fma_zero() { return _mm256_setzero_ps(); }
inline FmaLanes fma_add(FmaLanes a, FmaLanes b) { return _mm256_add_ps(a, b); }
inline FmaLanes matrix_product_fma(FmaFactor x, FmaFactor y, FmaLanes s) {
  return _mm256_fmadd_ps(x, y, s);
}

#elif defined(__SSE2__)

struct FmaFactor {
  __m128d low, high;
};
using FmaLanes = __m128;
inline constexpr int fma_width = 4;
inline FmaLanes fma_load(const float* from) { return _mm_loadu_ps(from); }
inline void fma_store(float* to, FmaLanes lanes) { _mm_storeu_ps(to, lanes); }
inline FmaFactor fma_wide(FmaLanes lanes) {
  return {_mm_cvtps_pd(lanes), _mm_cvtps_pd(_mm_movehl_ps(lanes, lanes))};
}
inline FmaFactor fma_factor(const float* from) { return fma_wide(fma_load(from)); }
inline FmaFactor fma_broadcast(float value) {
  const __m128d wide = _mm_set1_pd(static_cast<double>(value));
  return {wide, wide};
}
inline FmaLanes fma_zero() { return _mm_setzero_ps(); }
inline FmaLanes fma_add(FmaLanes a, FmaLanes b) { return _mm_add_ps(a, b); }

/// x * y + s rounded to odd: the exact value if fp64 has it, otherwise the one of its two neighbours whose last bit
/// is 1. Casting that to fp32 gives the fp32 value nearest to the exact one (Boldo and Melquiond, Emulation of a FMA and
/// correctly rounded sums, 2008), because fp64 has more than two bits more.
///
/// The product of two fp32 values is exact in fp64, and no value here is a subnormal of it: multiples of 2^-298 below
/// 2^257. TwoSum gives the error e of the addition, exactly; it is NaN, so not ordered, for infinities and NaN.
inline __m128d fma_to_odd(__m128d x, __m128d y, __m128d s) {
  const __m128d p = _mm_mul_pd(x, y);
  const __m128d sum = _mm_add_pd(p, s);
  const __m128d s_part = _mm_sub_pd(sum, p);
  const __m128d p_part = _mm_sub_pd(sum, s_part);
  const __m128d e = _mm_add_pd(_mm_sub_pd(p, p_part), _mm_sub_pd(s, s_part));
  const __m128d zero = _mm_setzero_pd();
  const __m128d inexact = _mm_or_pd(_mm_cmplt_pd(e, zero), _mm_cmpgt_pd(e, zero));
  const __m128i bits = _mm_castpd_si128(sum);
  const __m128i one = _mm_set1_epi64x(1);
  // An even sum moves by 1 towards the exact value: up in magnitude if e has its sign, down otherwise.
  const __m128i is_even = _mm_sub_epi64(_mm_and_si128(bits, one), one);  // all ones if even
  const __m128i signs = _mm_xor_si128(bits, _mm_castpd_si128(e));
  const __m128i move = _mm_sub_epi64(one, _mm_slli_epi64(_mm_srli_epi64(signs, 63), 1));
  const __m128i applied = _mm_and_si128(_mm_and_si128(move, is_even), _mm_castpd_si128(inexact));
  return _mm_castsi128_pd(_mm_add_epi64(bits, applied));
}

inline FmaLanes matrix_product_fma(const FmaFactor& x, const FmaFactor& y, FmaLanes s) {
  const FmaFactor wide = fma_wide(s);
  return _mm_movelh_ps(_mm_cvtpd_ps(fma_to_odd(x.low, y.low, wide.low)),
                       _mm_cvtpd_ps(fma_to_odd(x.high, y.high, wide.high)));
}

#else  // a processor whose baseline has fma

using FmaLanes = float;
using FmaFactor = float;
inline constexpr int fma_width = 1;
inline FmaLanes fma_load(const float* from) { return *from; }
inline void fma_store(float* to, FmaLanes lanes) { *to = lanes; }
inline FmaFactor fma_factor(const float* from) { return *from; }
inline FmaFactor fma_broadcast(float value) { return value; }
inline FmaLanes fma_zero() { return 0.0F; }
inline FmaLanes fma_add(FmaLanes a, FmaLanes b) { return a + b; }
inline FmaLanes matrix_product_fma(FmaFactor x, FmaFactor y, FmaLanes s) {
  return __builtin_fmaf(x, y, s);
}

#endif

}  // namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE
