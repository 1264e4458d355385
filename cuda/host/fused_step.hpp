#pragma once
// The seven phases in two passes over memory. Same roundings in the same order, so the same bits; the clipped
// gradient only ever lives in registers.

#include "common/base/exec.hpp"
#include "common/base/span.hpp"
#include "common/contracts/grad_norm.hpp"
#include "common/contracts/step_scalars.hpp"

namespace zeroproof::cuda::host {

/// First pass: reads grad_sum once and finds found_inf and the norm's limbs of grad_sum * inv_scale.
///
/// Shapes   grad_sum: [numel], starting at a chunk boundary of its tensor. limbs: added to.
/// Returns  found_inf of this piece.
bool fused_finite_and_norm(const Exec& exec, float inv_scale, Span<const float> grad_sum, NormLimbs& limbs);

/// Second pass: unscale, clip, AdamW and cast.
///
/// Shapes   grad_sum, master, exp_avg, exp_avg_sq, param: [numel] of the same global range; no two overlap.
///          param holds fp32, bf16 or fp16.
/// Errors   invalid_argument if the numels differ or param has another dtype.
void fused_update(const Exec& exec, const StepScalars& scalars, float clip_coef, Span<const float> grad_sum,
                  Span<float> master, Span<float> exp_avg, Span<float> exp_avg_sq, const TensorView& param);

}  // namespace zeroproof::cuda::host
