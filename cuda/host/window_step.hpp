#pragma once
// The sharded step of ranks that share memory: no messages. Every rank reads the others' gradient nodes where they lie
// (Communicator::shared_window), folds them by the tree of R11 in blocks that stay in the cache, updates its shard and
// stores the parameters into a copy that all ranks read. The same roundings in the same order as the phases, so the
// same bits.

#include "common/base/exec.hpp"
#include "common/base/span.hpp"
#include "cuda/host/fold_plan.hpp"
#include "cuda/host/fused_step.hpp"

namespace zeroproof::cuda::host {

/// G of this rank's shard, with found_inf and the chunk1024 limbs of G * inv_scale found while it is in the cache.
///
/// Shapes   nodes: those of the plan, each [numel] of this rank's shard range, starting at a chunk boundary; grad_sum:
///          [numel].
/// Returns  found_inf of this piece. limbs: added to.
/// Exact    the bits of add_nodes by R11, then fused_finite_and_norm.
bool window_reduce(const Exec& exec, const FoldPlan& plan, float inv_scale,
                   Span<const Span<const float>> nodes, Span<float> grad_sum, NormLimbs& limbs);

/// Reduce, unscale, update and cast in one pass, for steps whose clip coefficient is known beforehand (no clipping, or
/// a norm that was found earlier). G is never stored.
///
/// Shapes   nodes: as above; state, param: [numel], param may lie in a window that other ranks read.
/// Errors   as fused_update; draws are not offered here.
/// Exact    the bits of the phases.
void window_update(const Exec& exec, const FoldPlan& plan, const FusedOptions& options,
                   const StepScalars& scalars, float clip_coef, Span<const Span<const float>> nodes,
                   const FusedState& state, const TensorView& param);

}  // namespace zeroproof::cuda::host
