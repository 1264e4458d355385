#pragma once
// The kernels of a step on a device. Everything is enqueued on the current stream; nothing waits,
// nothing is allocated, no argument changes between steps. Needs no CUDA.
//
// Phase by phase:  decide(scalars); unscale; [flags over ranks] decide(scaler); norm;
//                  [sums over ranks] decide(norm); decide(clip); clip; decide(count); update; cast.
// In two passes:   finite_norm with scalars; [flags, digests and sums over ranks] decide(the rest);
//                  fused_update. A single rank needs no digests of others, so finite_norm;
//                  decide(all of it); fused_update is equivalent. If the fold that wrote G measured
//                  it (fold_nodes.hpp), finite_norm is left out and decide(scalars) computes the
//                  digests.
//
// A rule with trust ratios, before the update: [sums = 0] trust_norms; [sums over ranks] trust_ratios.
//
// A rule with matrices, before the update: matrix_momentum; [elements over ranks, Newton-Schulz, and
// back]; the update of matrices and of other tensors are two passes over two tables of pieces.
//
// The passes stop by themselves after a halt. Only fused_update handles a skipped step by itself;
// the host of the separate phases has to check for it after decide(scaler). A rank without pieces
// launches only the kernels that compute scalars.

#include <cstdint>

#include "common/base/dtype.hpp"
#include "common/contracts/loss_scaler.hpp"
#include "common/contracts/step_scalars.hpp"
#include "common/step/param_scaling.hpp"
#include "common/step/policy.hpp"
#include "cuda/device/step/step_memory.hpp"

namespace zeroproof::cuda::device {

/// Settings of a run that no step changes.
struct StepRules {
  OptimizerHyper hyper;  ///< lr and weight_decay come from the schedule table instead
  LossScalerConfig scaler;
  OnNonfinite on_nonfinite = OnNonfinite::skip;
  DType param_dtype = DType::bf16;  ///< fp32, bf16 or fp16; other passes compute 8-bit ones
  ParamRounding rounding = ParamRounding::nearest;
  std::uint64_t seed = 1;
};

/// unscale: grad = G * inv_scale in place; found_inf becomes 1 if any product is not finite (R6, R14).
void enqueue_unscale(const StepMemory& memory);

/// norm, of an unscaled gradient: adds the sums (normalised) or amax of this rank's counted pieces,
/// in the run's form (R12), to those found so far, as finite_norm does.
void enqueue_norm(const StepMemory& memory, const StepRules& rules);

/// unscale and norm in one pass that only reads: computes inv_scale from state and input by R5 and
/// keeps g1 in registers. A piece that is not counted is included in found_inf. Adds nothing where
/// R5 has no inv_scale: decide(scalars) halts. with_scalars: one block also runs the part
/// decide_scalars, so that ranks can compare digests before the rest is decided.
void enqueue_finite_norm(const StepMemory& memory, const StepRules& rules,
                         bool with_scalars = false);

/// clip: grad = grad * clip_coef in place, then clip by value if the run has it (R13).
void enqueue_clip(const StepMemory& memory, const StepRules& rules);

/// Adds the squares of master and of u of this rank's counted pieces to the sums of their tensors
/// (R6); those of a tensor without a gradient stay. fused: from G instead of g. Only reads
/// otherwise.
void enqueue_trust_norms(const StepMemory& memory, const StepRules& rules, bool fused);

/// trust ratios of all tensors, from sums of all ranks; 1 for one without a gradient.
void enqueue_trust_ratios(const StepMemory& memory);

/// momentum of matrices (R28), for a table of pieces of matrices: exp_avg, and e into
/// matrices.orthogonal; +0 there for a tensor without a gradient. fused: from G instead of g.
/// Changes nothing in a skipped step or after a halt.
void enqueue_matrix_momentum(const StepMemory& memory, const StepRules& rules, bool fused);

/// update of the same pieces from elements of O. fused: also casts them, unless parameters have 8
/// bits; as enqueue_fused_update. Errors: as enqueue_cast.
void enqueue_matrix_update(const StepMemory& memory, const StepRules& rules, bool fused);

/// update of every piece whose tensor has a gradient, by the rule (R6), with the scalars of its
/// set.
void enqueue_update(const StepMemory& memory, const StepRules& rules);

/// cast: param = master rounded to the parameter dtype, to nearest or with random words for the
/// counted steps (R8, R15). For every piece: without a gradient, parameters get the bits of an
/// earlier cast again. Errors: invalid_argument if no cast of R8 has this target.
void enqueue_cast(const StepMemory& memory, const StepRules& rules);

/// Unscale, clip, clip by value, update and cast of every piece whose tensor has a gradient, in one
/// pass that does not change G. Changes nothing in a skipped step or after a halt. Stochastic
/// rounding uses the counts that decide(count) left. Does not compute 8-bit parameters. Errors: as
/// enqueue_cast.
void enqueue_fused_update(const StepMemory& memory, const StepRules& rules);

/// The scalars between passes, computed by one block of one launch. The parts run in this order:
enum DecidePart : std::uint32_t {
  /// t; scalars of every set for it, from state, input and schedule (R5, R20); digest and
  /// not_digest of their words, which replace those that the ranks may have exchanged.
  decide_scalars = 1,
  /// Evaluates the values exchanged by the ranks: halts if scalars differ; found_inf: skip, halt or
  /// neither by the policy; the loss scaler (R14). In a skipped step grad_norm and clip_coef become
  /// NaN.
  decide_scaler = 2,
  decide_norm =
      4,  ///< normalises the sums; grad_norm from them or amax (R12); not in a skipped step
  decide_clip = 8,  ///< clip_coef from grad_norm (R13); not in a skipped step
  decide_count =
      16  ///< counts the step as applied to the tensors with a gradient; not in a skipped step
};

/// parts: any sum of DecidePart. After a halt, does nothing. A halt in an earlier part stops the
/// later ones. compares_digests: false if the step has one rank.
void enqueue_decide(const StepMemory& memory, const StepRules& rules, std::uint32_t parts,
                    bool compares_digests);

}  // namespace zeroproof::cuda::device
