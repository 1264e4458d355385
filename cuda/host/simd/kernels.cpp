// Compiled once per instruction set, with ZP_ISA_NAMESPACE naming the variant. Every loop body is written so
// that the compiler's vector body and its scalar tail are the same operations (R17).

#include "cuda/host/simd/kernels.hpp"

#include <cmath>

#if defined(__F16C__) || defined(__AVX512F__)
#include <immintrin.h>
// g++ 12 takes the deliberately undefined operands inside its own AVX-512 header for mistakes.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#endif

namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE {
namespace {

constexpr std::int64_t chunk = 1024;
constexpr int lanes = 32;

inline std::uint32_t bits_of(float value) { return __builtin_bit_cast(std::uint32_t, value); }
inline float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

inline std::uint32_t not_finite(float value) {
  return (bits_of(value) & 0x7F800000U) == 0x7F800000U ? 1U : 0U;
}

void add(const float* left, const float* right, float* sum, std::int64_t numel) {
#pragma omp simd
  for (std::int64_t i = 0; i < numel; ++i) sum[i] = left[i] + right[i];
}

std::uint32_t unscale(float inv_scale, const float* source, float* target, std::int64_t numel) {
  std::uint32_t found = 0;
#pragma omp simd reduction(| : found)
  for (std::int64_t i = 0; i < numel; ++i) {
    const float product = source[i] * inv_scale;
    found |= not_finite(product);
    target[i] = product;
  }
  return found;
}

void scale(float factor, const float* source, float* target, std::int64_t numel) {
#pragma omp simd
  for (std::int64_t i = 0; i < numel; ++i) target[i] = source[i] * factor;
}

/// Halving tree over the 32 lanes.
inline double fold(double* lane) {
  for (int width = lanes / 2; width >= 1; width /= 2) {
    for (int l = 0; l < width; ++l) lane[l] += lane[l + width];
  }
  return lane[0];
}

/// Asks for what is two chunks further on: the processor's own prefetching stops at every page of 4 KiB, which is a
/// chunk. An address behind the buffer does no harm; it is an integer here because no pointer may go there.
inline void prefetch_ahead(const float* x) {
  __builtin_prefetch(
      reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(x) + 2 * chunk * sizeof(float)));
}

/// Sums the squares of `numel` <= 1024 values into the 32 lanes of R12; `scaled` multiplies by inv_scale first.
template <bool scaled>
inline void square_lanes(float inv_scale, const float* source, std::int64_t numel, double* lane) {
  constexpr int group_lanes =
      16;  // a cache line of values; their sums fit the registers of every instruction set
  const std::int64_t rows = numel / lanes;
  for (int group = 0; group < lanes; group += group_lanes) {
    double sum[group_lanes] = {};
    for (std::int64_t row = 0; row < rows; ++row) {
      const float* x = source + row * lanes + group;
      prefetch_ahead(x);
#pragma omp simd
      for (int l = 0; l < group_lanes; ++l) {
        const float value = scaled ? x[l] * inv_scale : x[l];
        const double square = static_cast<double>(value) * static_cast<double>(value);
        sum[l] = sum[l] + square;
      }
    }
    for (int l = 0; l < group_lanes; ++l) lane[group + l] = sum[l];
  }
  for (std::int64_t i = rows * lanes; i < numel; ++i) {
    const float value = scaled ? source[i] * inv_scale : source[i];
    const double square = static_cast<double>(value) * static_cast<double>(value);
    lane[i - rows * lanes] = lane[i - rows * lanes] + square;
  }
}

/// Returns non-zero if a chunk value is not finite. Squares of finite fp32 values cannot overflow a sum of 1024 in fp64,
/// so that is the case exactly if one of the (scaled) values is not finite.
template <bool scaled>
inline std::uint32_t all_chunks(float inv_scale, const float* source, std::int64_t numel, double* sums) {
  std::uint32_t found = 0;
  for (std::int64_t begin = 0; begin < numel; begin += chunk) {
    double lane[lanes];
    square_lanes<scaled>(inv_scale, source + begin, numel - begin < chunk ? numel - begin : chunk, lane);
    const double value = fold(lane);
    sums[begin / chunk] = value;
    const std::uint64_t bits = __builtin_bit_cast(std::uint64_t, value);
    if ((bits & 0x7FF0000000000000U) == 0x7FF0000000000000U) found = 1;
  }
  return found;
}

void chunk_sums(const float* source, std::int64_t numel, double* sums) {
  all_chunks<false>(1.0F, source, numel, sums);
}

std::uint32_t unscale_chunk_sums(float inv_scale, const float* source, std::int64_t numel, double* sums) {
  return all_chunks<true>(inv_scale, source, numel, sums);
}

/// One element of R6 from the clipped gradient on; returns the new master.
template <bool decay>
inline float adamw_element(const StepScalars& c, float g, float p, float& m, float& v) {
  const float a1 = c.beta1 * m;
  const float a2 = c.one_minus_beta1 * g;
  const float m_new = a1 + a2;
  const float h = g * g;
  const float b1 = c.beta2 * v;
  const float b2 = c.one_minus_beta2 * h;
  const float v_new = b1 + b2;
  const float s = std::sqrt(v_new);
  const float r = s / c.sqrt_bias_correction2;
  const float d = r + c.eps;
  const float q = m_new / d;
  const float a = c.step_size * q;
  m = m_new;
  v = v_new;
  if (!decay) return p - a;
  const float w = c.lr_weight_decay * p;
  const float u = a + w;
  return p - u;
}

template <bool decay>
inline void adamw_loop(const StepScalars c, const float* grad, float* master, float* exp_avg,
                       float* exp_avg_sq, std::int64_t numel) {
#pragma omp simd
  for (std::int64_t i = 0; i < numel; ++i) {
    float m = exp_avg[i];
    float v = exp_avg_sq[i];
    master[i] = adamw_element<decay>(c, grad[i], master[i], m, v);
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
  }
}

void adamw(const StepScalars& scalars, const float* grad, float* master, float* exp_avg, float* exp_avg_sq,
           std::int64_t numel) {
  if (scalars.has_decay != 0) {
    adamw_loop<true>(scalars, grad, master, exp_avg, exp_avg_sq, numel);
  } else {
    adamw_loop<false>(scalars, grad, master, exp_avg, exp_avg_sq, numel);
  }
}

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
  const std::uint32_t subnormal = bits_of(static_cast<float>(static_cast<std::int32_t>(rest)) * 0x1p-24F);
  std::uint32_t result = rest < 0x400U ? subnormal : normal;
  result = rest >= 0x7C00U ? special : result;
  return float_of(result | sign);
}

void to_bf16(const float* source, std::uint16_t* target, std::int64_t numel) {
#pragma omp simd
  for (std::int64_t i = 0; i < numel; ++i) target[i] = bf16_bits(source[i]);
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

template <bool decay>
inline void fused_loop(const StepScalars c, float clip_coef, const float* grad_sum, float* master,
                       float* exp_avg, float* exp_avg_sq, std::int64_t numel) {
#pragma omp simd
  for (std::int64_t i = 0; i < numel; ++i) {
    const float g1 = grad_sum[i] * c.inv_scale;
    const float g = g1 * clip_coef;
    float m = exp_avg[i];
    float v = exp_avg_sq[i];
    master[i] = adamw_element<decay>(c, g, master[i], m, v);
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
  }
}

/// to_bf16 past the caches, for a target that nobody reads soon; the bits are the same.
void stream_bf16(const float* source, std::uint16_t* target, std::int64_t numel) {
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
    const __m512i both =
        _mm512_inserti64x4(_mm512_castsi256_si512(rounded(source + i)), rounded(source + i + 16), 1);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(target + i), both);
  }
#endif
  to_bf16(source + i, target + i, numel - i);
}

/// The cast of a block reads master while it is still in the first-level cache.
void fused_update(const StepScalars& scalars, float clip_coef, const float* grad_sum, float* master,
                  float* exp_avg, float* exp_avg_sq, void* param, int kind, bool stream, std::int64_t numel) {
  constexpr std::int64_t block = 1024;
  for (std::int64_t begin = 0; begin < numel; begin += block) {
    const std::int64_t count = numel - begin < block ? numel - begin : block;
    float* p = master + begin;
    if (scalars.has_decay != 0) {
      fused_loop<true>(scalars, clip_coef, grad_sum + begin, p, exp_avg + begin, exp_avg_sq + begin, count);
    } else {
      fused_loop<false>(scalars, clip_coef, grad_sum + begin, p, exp_avg + begin, exp_avg_sq + begin, count);
    }
    if (kind == 1) (stream ? stream_bf16 : to_bf16)(p, static_cast<std::uint16_t*>(param) + begin, count);
    if (kind == 2) to_fp16(p, static_cast<std::uint16_t*>(param) + begin, count);
    if (kind == 0)
      __builtin_memcpy(static_cast<float*>(param) + begin, p,
                       static_cast<std::size_t>(count) * sizeof(float));
  }
#if defined(__AVX512F__)
  if (stream) _mm_sfence();  // streamed stores are ordered with nothing else
#endif
}

}  // namespace

extern const SimdKernels kernels;
const SimdKernels kernels = {add,     unscale, scale,     chunk_sums, unscale_chunk_sums, adamw,
                             to_bf16, to_fp16, from_bf16, from_fp16,  fused_update};

}  // namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE
