// Casts to nearest even and back (R8).

#include "cuda/host/simd/variant.hpp"

namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE {
namespace {

inline std::uint16_t bf16_bits(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t rounded = (bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16;
  const bool nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  return static_cast<std::uint16_t>(nan ? 0x7FFFU : rounded);
}

/// Branch-free: both the normal and the subnormal result are computed and one is chosen.
inline std::uint16_t fp16_bits(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t sign = bits >> 16 & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  // Normal: rebias the exponent from 127 to 15 and round 13 fraction bits away, carrying into the exponent.
  const std::uint32_t normal = (magnitude - (112U << 23) + 0xFFFU + (magnitude >> 13 & 1U)) >> 13;
  // Subnormal: adding 1/2 aligns the value to units of 2^-24, and the addition itself rounds to nearest even.
  const std::uint32_t subnormal = bits_of(float_of(magnitude) + 0.5F) - bits_of(0.5F);
  std::uint32_t result = magnitude < 113U << 23 ? subnormal : normal;
  result = magnitude >= 0x477FF000U ? 0x7C00U : result;  // 65520 and above round to infinity
  result = magnitude > 0x7F800000U ? 0x7FFFU : result | sign;
  return static_cast<std::uint16_t>(result);
}

inline float from_fp16_bits(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t{half} >> 15 << 31;
  const std::uint32_t rest = half & 0x7FFFU;
  const std::uint32_t normal = (rest << 13) + (112U << 23);
  const std::uint32_t special = rest << 13 | 0x7F800000U;
  const std::uint32_t subnormal =
      bits_of(static_cast<float>(static_cast<std::int32_t>(rest)) * 0x1p-24F);
  std::uint32_t result = rest < 0x400U ? subnormal : normal;
  result = rest >= 0x7C00U ? special : result;
  return float_of(result | sign);
}

/// An 8-bit format with `fraction` stored bits, exponent bias `bias` and the largest finite pattern `most`; saturating.
/// `align` is the power of two whose last place in fp32 is the format's smallest subnormal.
template <int fraction, std::uint32_t bias, std::uint32_t most>
inline std::uint8_t byte_bits(float value, float align) {
  constexpr int dropped = 23 - fraction;
  constexpr std::uint32_t rebias = (127U - bias) << 23;
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t sign = bits >> 24 & 0x80U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  const std::uint32_t normal =
      (magnitude - rebias + ((1U << (dropped - 1)) - 1U) + (magnitude >> dropped & 1U)) >> dropped;
  const std::uint32_t subnormal = bits_of(float_of(magnitude) + align) - bits_of(align);
  std::uint32_t result = magnitude < rebias + (1U << 23) ? subnormal : normal;
  result = result > most ? most : result;
  result = magnitude > 0x7F800000U ? 0x7FU : result | sign;
  return static_cast<std::uint8_t>(result);
}

inline float from_e4m3_bits(std::uint8_t byte) {
  const std::uint32_t sign = std::uint32_t{byte} >> 7 << 31;
  const std::uint32_t rest = byte & 0x7FU;
  const std::uint32_t normal = (rest << 20) + (120U << 23);
  const std::uint32_t subnormal =
      bits_of(static_cast<float>(static_cast<std::int32_t>(rest)) * 0x1p-9F);
  std::uint32_t result = rest < 0x08U ? subnormal : normal;
  result = rest == 0x7FU ? 0x7FFFFFFFU : result;
  return float_of(result | sign);
}

inline float from_e5m2_bits(std::uint8_t byte) {
  const std::uint32_t sign = std::uint32_t{byte} >> 7 << 31;
  const std::uint32_t rest = byte & 0x7FU;
  const std::uint32_t normal = (rest << 21) + (112U << 23);
  const std::uint32_t special = rest << 21 | 0x7F800000U;
  const std::uint32_t subnormal =
      bits_of(static_cast<float>(static_cast<std::int32_t>(rest)) * 0x1p-16F);
  std::uint32_t result = rest < 0x04U ? subnormal : normal;
  result = rest >= 0x7CU ? special : result;
  return float_of(result | sign);
}

}  // namespace

void to_bf16(const float* source, std::uint16_t* target, std::int64_t numel) {
#pragma omp simd
  for (std::int64_t i = 0; i < numel; ++i) target[i] = bf16_bits(source[i]);
}

/// to_bf16 bypassing the caches, for a target that is not read soon; the bits are the same. The
/// caller ends a series of these with a store fence.
void to_bf16_streamed(const float* source, std::uint16_t* target, std::int64_t numel) {
  std::int64_t i = 0;
#if defined(__AVX512F__)
  while (i < numel && (reinterpret_cast<std::uintptr_t>(target + i) & 63U) != 0) ++i;
  to_bf16(source, target, i);
  const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
  const __m512i infinity = _mm512_set1_epi32(0x7F800000);
  const auto rounded = [&](const float* from) {
    const __m512i bits = _mm512_loadu_si512(from);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), odd);
    const __mmask16 nan = _mm512_cmpgt_epi32_mask(_mm512_and_si512(bits, magnitude), infinity);
    return _mm512_cvtepi32_epi16(
        _mm512_mask_mov_epi32(_mm512_srli_epi32(sum, 16), nan, _mm512_set1_epi32(0x7FFF)));
  };
  for (; i + 32 <= numel; i += 32) {
    const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(rounded(source + i)),
                                            rounded(source + i + 16), 1);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(target + i), both);
  }
#endif
  to_bf16(source + i, target + i, numel - i);
}

/// A copy bypassing the caches.
void copy_streamed(const float* source, float* target, std::int64_t numel) {
  std::int64_t i = 0;
  for (; i < numel && (reinterpret_cast<std::uintptr_t>(target + i) & 63U) != 0; ++i)
    target[i] = source[i];
#if defined(__AVX512F__)
  for (; i + 16 <= numel; i += 16)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(target + i), _mm512_loadu_si512(source + i));
#endif
  for (; i + 4 <= numel; i += 4)
    _mm_stream_si128(reinterpret_cast<__m128i*>(target + i),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i)));
  for (; i < numel; ++i) target[i] = source[i];
  _mm_sfence();
}

void to_fp16(const float* source, std::uint16_t* target, std::int64_t numel) {
  std::int64_t i = 0;
#if defined( \
    __F16C__)  // rounds to nearest even by the immediate operand, keeps subnormals whatever MXCSR says
  for (; i + 8 <= numel; i += 8) {
    const __m128i half = _mm256_cvtps_ph(_mm256_loadu_ps(source + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target + i), half);
  }
#endif
  for (; i < numel; ++i) target[i] = fp16_bits(source[i]);
}

void to_e4m3(const float* source, std::uint8_t* target, std::int64_t numel) {
#pragma omp simd
  for (std::int64_t i = 0; i < numel; ++i) target[i] = byte_bits<3, 7, 0x7E>(source[i], 0x1p14F);
}

void to_e5m2(const float* source, std::uint8_t* target, std::int64_t numel) {
#pragma omp simd
  for (std::int64_t i = 0; i < numel; ++i) target[i] = byte_bits<2, 15, 0x7B>(source[i], 0x1p7F);
}

void from_bf16(const std::uint16_t* source, float* target, std::int64_t numel) {
#pragma omp simd
  for (std::int64_t i = 0; i < numel; ++i) target[i] = float_of(std::uint32_t{source[i]} << 16);
}

void from_fp16(const std::uint16_t* source, float* target, std::int64_t numel) {
  std::int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= numel; i += 8) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i));
    _mm256_storeu_ps(target + i, _mm256_cvtph_ps(half));
  }
#endif
  for (; i < numel; ++i) target[i] = from_fp16_bits(source[i]);
}

void from_e4m3(const std::uint8_t* source, float* target, std::int64_t numel) {
#pragma omp simd
  for (std::int64_t i = 0; i < numel; ++i) target[i] = from_e4m3_bits(source[i]);
}

void from_e5m2(const std::uint8_t* source, float* target, std::int64_t numel) {
#pragma omp simd
  for (std::int64_t i = 0; i < numel; ++i) target[i] = from_e5m2_bits(source[i]);
}

}  // namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE
