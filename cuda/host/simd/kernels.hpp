#pragma once
// The loops of the host twins over raw memory. kernels.cpp is compiled once per instruction set; this table
// is how the rest of the program reaches the variants. Only plain pointers and plain structs here: an inline
// function compiled for AVX-512 and merged by the linker into baseline code would crash older machines.

#include <cstdint>

#include "common/base/exec.hpp"
#include "common/contracts/step_scalars.hpp"

namespace zeroproof::cuda::host {

struct SimdKernels {
  void (*add)(const float* left, const float* right, float* sum, std::int64_t numel);
  /// Returns non-zero if any product is not finite.
  std::uint32_t (*unscale)(float inv_scale, const float* source, float* target, std::int64_t numel);
  void (*scale)(float factor, const float* source, float* target, std::int64_t numel);
  /// sums[c] = chunk value of R12 for the chunk that starts at source + 1024 c; the last one may be short.
  void (*chunk_sums)(const float* source, std::int64_t numel, double* sums);
  /// The same over source[i] * inv_scale, each product rounded to fp32; returns non-zero if one is not
  /// finite.
  std::uint32_t (*unscale_chunk_sums)(float inv_scale, const float* source, std::int64_t numel, double* sums);
  void (*adamw)(const StepScalars& scalars, const float* grad, float* master, float* exp_avg,
                float* exp_avg_sq, std::int64_t numel);
  void (*to_bf16)(const float* source, std::uint16_t* target, std::int64_t numel);
  void (*to_fp16)(const float* source, std::uint16_t* target, std::int64_t numel);
  void (*from_bf16)(const std::uint16_t* source, float* target, std::int64_t numel);
  void (*from_fp16)(const std::uint16_t* source, float* target, std::int64_t numel);
  /// Unscale, clip, update and cast in one pass over memory. `kind`: 0 fp32, 1 bf16, 2 fp16 parameters. `stream`:
  /// parameters are written past the caches where the instruction set can.
  void (*fused_update)(const StepScalars& scalars, float clip_coef, const float* grad_sum, float* master,
                       float* exp_avg, float* exp_avg_sq, void* param, int kind, bool stream,
                       std::int64_t numel);
};

/// The table of one instruction set; Isa::best is resolved. Errors: as best_isa().
const SimdKernels& simd_kernels(Isa isa);

}  // namespace zeroproof::cuda::host
