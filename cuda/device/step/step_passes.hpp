#pragma once
// The kernels of a step on a device. Everything is enqueued on the current stream; nothing waits, nothing is allocated,
// no argument changes between steps. Needs no CUDA.
//
// Phase by phase:  decide(scalars); unscale; [flags over ranks] decide(scaler); norm; [sums over ranks] decide(norm);
//                  decide(clip); clip; decide(count); update; cast.
// In two passes:   finite_norm with scalars; [flags, digests and sums over ranks] decide(the rest); fused_update.
//                  One rank needs no digests of others, so finite_norm; decide(all of it); fused_update does the same.
//                  Where the fold that wrote G has looked at it (fold_nodes.hpp), finite_norm is left out, and
//                  decide(scalars) makes the digests.
//
// The passes stop by themselves after a halt; that a step is skipped, only fused_update sees by itself, and the host of
// the phases has to look at it after decide(scaler). A rank without pieces launches nothing but what makes numbers.

#include <cstdint>

#include "common/base/dtype.hpp"
#include "common/contracts/loss_scaler.hpp"
#include "common/contracts/step_scalars.hpp"
#include "common/step/param_scaling.hpp"
#include "common/step/policy.hpp"
#include "cuda/device/step/step_memory.hpp"

namespace zeroproof::cuda::device {

/// What is settled once for a run.
struct StepRules {
  OptimizerHyper hyper;  ///< lr and weight_decay are those of the schedule table instead
  LossScalerConfig scaler;
  OnNonfinite on_nonfinite = OnNonfinite::skip;
  DType param_dtype = DType::bf16;  ///< fp32, bf16 or fp16; those of 8 bits, other passes make
  ParamRounding rounding = ParamRounding::nearest;
  std::uint64_t seed = 1;
};

/// unscale: grad = G * inv_scale in place; found_inf becomes 1 if any product is not finite (R6, R14).
void enqueue_unscale(const StepMemory& memory);

/// norm, of an unscaled gradient: the sums (normalised) or amax of this rank's counted pieces, in the run's form (R12).
/// They are added to what is found already, as those of finite_norm are.
void enqueue_norm(const StepMemory& memory, const StepRules& rules);

/// unscale and norm in one pass that only reads: inv_scale is made from state and input by R5, g1 lives in registers.
/// A piece that is not counted takes part in found_inf. Finds nothing where R5 has no inv_scale: decide(scalars) halts.
/// with_scalars: one block does the part decide_scalars on the way, so that ranks can compare digests before the rest
/// is decided.
void enqueue_finite_norm(const StepMemory& memory, const StepRules& rules,
                         bool with_scalars = false);

/// clip: grad = grad * clip_coef in place, then clip by value if the run has it (R13).
void enqueue_clip(const StepMemory& memory, const StepRules& rules);

/// update of every piece whose tensor has a gradient, by the rule (R6), with the scalars of its set.
void enqueue_update(const StepMemory& memory, const StepRules& rules);

/// cast: param = master rounded to the parameter dtype, nearest or drawn with the steps that have been counted (R8,
/// R15). Of every piece: where there was no gradient, parameters get the bits that an earlier cast gave them.
/// Errors: invalid_argument if no cast of R8 makes such parameters.
void enqueue_cast(const StepMemory& memory, const StepRules& rules);

/// Unscale, clip, clip by value, update and cast of every piece whose tensor has a gradient, in one pass that leaves
/// G as it is. Changes nothing in a skipped step or after a halt. Draws take the counts that decide(count) left.
/// Parameters in 8 bits are not made here. Errors: as enqueue_cast.
void enqueue_fused_update(const StepMemory& memory, const StepRules& rules);

/// The numbers between passes, by one block of one launch. Parts are done in this order:
enum DecidePart : std::uint32_t {
  /// t; scalars of every set for it, from state, input and schedule (R5, R20); digest and not_digest of their words,
  /// which replace what ranks may have told each other of them.
  decide_scalars = 1,
  /// Looks at what the ranks told each other: halts if scalars differ; found_inf: skip, halt or neither by the policy;
  /// the loss scaler (R14). In a skipped step grad_norm and clip_coef become NaN.
  decide_scaler = 2,
  decide_norm =
      4,  ///< normalises the sums; grad_norm from them or amax (R12); not in a skipped step
  decide_clip = 8,  ///< clip_coef from grad_norm (R13); not in a skipped step
  decide_count =
      16  ///< the step counts as applied, for the tensors that have a gradient; not in a skipped step
};

/// parts: any sum of DecidePart. After a halt, nothing is done. A halt in an earlier part stops the later ones.
/// look_at_digests: false where the step has one rank.
void enqueue_decide(const StepMemory& memory, const StepRules& rules, std::uint32_t parts,
                    bool look_at_digests);

}  // namespace zeroproof::cuda::device
