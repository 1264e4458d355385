#pragma once
// Declarations shared by the files compiled once per instruction set. Everything is in
// ZP_ISA_NAMESPACE, so that no function of one variant can be merged with that of another.

#include <cstdint>

#include "cuda/host/simd/kernels.hpp"

#if defined(__SSE2__)
#include <immintrin.h>
// g++ 12 warns about the deliberately undefined operands inside its own AVX-512 header.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#endif

namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE {

inline std::uint32_t bits_of(float value) { return __builtin_bit_cast(std::uint32_t, value); }
inline float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

// fold_kernels.cpp
void fold(const Fold& fold, std::int64_t begin, float* sum, std::int64_t numel, bool streamed);
std::uint32_t fold_chunk_sums(float inv_scale, const Fold& fold, std::int64_t begin, float* sum,
                              std::int64_t numel, bool streamed, double* sums);

// norm_kernels.cpp
void chunk_sums(const float* source, std::int64_t numel, double* sums);
std::uint32_t unscale_chunk_sums(float inv_scale, const GradStretch& source, std::int64_t numel,
                                 double* sums);
std::uint32_t largest_magnitude(float factor, const float* source, std::int64_t numel);
void magnitude_range(float factor, const float* source, std::int64_t numel, std::uint32_t* smallest,
                     std::uint32_t* largest);
MagnitudeCounts count_magnitudes(const float* source, std::int64_t numel);
void split_squares(float factor, const float* source, std::int64_t numel, int levels,
                   const double* shifters, double* sums);
void split_magnitudes(float factor, const float* source, std::int64_t numel, int levels,
                      const double* shifters, double* sums);
double power_sum(double largest, int power, const float* source, std::int64_t numel);

// cast_kernels.cpp
void to_bf16(const float* source, std::uint16_t* target, std::int64_t numel);
void to_bf16_streamed(const float* source, std::uint16_t* target, std::int64_t numel);
void copy_streamed(const float* source, float* target, std::int64_t numel);
void to_fp16(const float* source, std::uint16_t* target, std::int64_t numel);
void to_e4m3(const float* source, std::uint8_t* target, std::int64_t numel);
void to_e5m2(const float* source, std::uint8_t* target, std::int64_t numel);
void from_bf16(const std::uint16_t* source, float* target, std::int64_t numel);
void from_fp16(const std::uint16_t* source, float* target, std::int64_t numel);
void from_e4m3(const std::uint8_t* source, float* target, std::int64_t numel);
void from_e5m2(const std::uint8_t* source, float* target, std::int64_t numel);

// stochastic_kernels.cpp
void to_bf16_stochastic(const Draw& draw, const float* source, std::uint16_t* target,
                        std::int64_t numel);

// update_kernels.cpp
void update(const UpdateForm& form, const GradientChain& chain, const StepScalars& scalars,
            const UpdateBuffers& buffers, std::int64_t numel);
void fused_update(const UpdateForm& form, const GradientChain& chain, const StepScalars& scalars,
                  const GradStretch& grad, const UpdateBuffers& buffers, const ParamTarget& param,
                  std::int64_t numel);
void lamb_updates(const GradientChain& chain, const StepScalars& scalars, const GradStretch& grad,
                  const float* master, const float* exp_avg, const float* exp_avg_sq, float* u,
                  std::int64_t numel);

/// The values of a range from element `begin` on, in fp32: their own memory, or widened into
/// `wide`.
inline const float* values_from(const GradStretch& grad, std::int64_t begin, std::int64_t count,
                                float* wide) {
  if (grad.dtype == DType::fp32) return static_cast<const float*>(grad.data) + begin;
  const std::uint16_t* half = static_cast<const std::uint16_t*>(grad.data) + begin;
  if (grad.dtype == DType::fp16) {
    from_fp16(half, wide, count);
  } else {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) wide[i] = float_of(std::uint32_t{half[i]} << 16);
  }
  return wide;
}

}  // namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE
