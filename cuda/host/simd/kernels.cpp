// The simplest loops, and the table of one instruction set. Every loop body is written so that the compiler's vector
// body and its scalar tail are the same operations (R17).

#include "cuda/host/simd/kernels.hpp"

#include "cuda/host/simd/variant.hpp"

namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE {
namespace {

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

std::uint32_t any_not_finite(float inv_scale, const float* source, std::int64_t numel) {
  return largest_magnitude(inv_scale, source, numel) >= 0x7F800000U ? 1U : 0U;
}

void scale(float factor, const float* source, float* target, std::int64_t numel) {
#pragma omp simd
  for (std::int64_t i = 0; i < numel; ++i) target[i] = source[i] * factor;
}

void clip_value(float limit, float* values, std::int64_t numel) {
#pragma omp simd
  for (std::int64_t i = 0; i < numel; ++i) {
    const float x = values[i];
    const float low = x < -limit ? -limit : x;
    values[i] = x > limit ? limit : low;
  }
}

}  // namespace

extern const SimdKernels kernels;
const SimdKernels kernels = {add,
                             fold,
                             fold_chunk_sums,
                             unscale,
                             any_not_finite,
                             scale,
                             clip_value,
                             chunk_sums,
                             unscale_chunk_sums,
                             largest_magnitude,
                             magnitude_range,
                             count_magnitudes,
                             split_squares,
                             split_magnitudes,
                             power_sum,
                             to_bf16,
                             to_bf16_streamed,
                             copy_streamed,
                             to_fp16,
                             to_e4m3,
                             to_e5m2,
                             from_bf16,
                             from_fp16,
                             from_e4m3,
                             from_e5m2,
                             to_bf16_stochastic,
                             update,
                             fused_update,
                             lamb_updates};

}  // namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE
