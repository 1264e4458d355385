#pragma once
// The step in two passes over memory. Same roundings in the same order as the phases, so the same
// bits (R17); the unscaled and the clipped gradient exist only in registers, and the gradient sum
// keeps its bits.
//
// First pass, by the form of the norm (R12):
//   chunk1024        fused_finite_and_norm finds found_inf and the limbs in one pass.
//   exact, one, inf  fused_finite finds found_inf; the norm takes a separate pass over the gradient
//   sum, only if the step is not skipped: fused_norm_exact, fused_norm_abs, fused_norm_max. (inf
//   needs only fused_norm_max: found_inf is amax >= 0x7F800000.)
// Second pass: fused_update, for every rule and option. Before it, for the rule lamb, a pass that
// only reads: fused_lamb_norms.

#include <optional>

#include "common/base/exec.hpp"
#include "common/base/span.hpp"
#include "common/contracts/cast.hpp"
#include "common/contracts/grad_norm.hpp"
#include "common/contracts/lamb.hpp"
#include "common/contracts/step_scalars.hpp"
#include "cuda/host/fold_plan.hpp"

namespace zeroproof::cuda::host {

/// Reads grad_sum once and finds found_inf and the chunk1024 limbs of grad_sum * inv_scale.
///
/// Shapes   grad_sum: [numel], starting at a chunk boundary of its tensor. limbs: added to; after
///          found_inf they hold the counts of nonfinite values, as R12 requires of a step that goes
///          on.
/// Returns  found_inf of this piece.
bool fused_finite_and_norm(const Exec& exec, float inv_scale, Span<const float> grad_sum,
                           NormLimbs& limbs);

/// The same over a gradient sum stored as one micro-batch gradient in its own type: fp32, bf16 or
/// fp16.
bool fused_finite_and_norm(const Exec& exec, float inv_scale, const GradStretch& grad_sum,
                           std::int64_t numel, NormLimbs& limbs);

/// fused_fold (grad_sum.hpp), combined with the above over the sum. sum starts at a chunk boundary
/// of its tensor.
bool fused_fold_finite_and_norm(const Exec& exec, float inv_scale, const FoldPlan& plan,
                                Span<const GradStretch> operands, Span<float> sum, bool streamed,
                                NormLimbs& limbs);

/// found_inf of this piece: true if any grad_sum * inv_scale is NaN or infinite (judged after the product).
bool fused_finite(const Exec& exec, float inv_scale, Span<const float> grad_sum);

/// The accumulating operations of contracts/grad_norm.hpp over grad_sum * inv_scale, each product rounded to fp32.
/// Pieces may start and end anywhere.
void fused_norm_exact(const Exec& exec, float inv_scale, Span<const float> grad_sum,
                      NormLimbs& limbs);
void fused_norm_abs(const Exec& exec, float inv_scale, Span<const float> grad_sum,
                    NormLimbs& limbs);
void fused_norm_max(const Exec& exec, float inv_scale, Span<const float> grad_sum,
                    std::uint32_t& amax);

/// Options of the second pass in addition to the step scalars.
struct FusedOptions {
  UpdateRule rule = UpdateRule::adamw;
  bool amsgrad = false;
  bool maximize = false;
  bool momentum = false;  ///< sgd: there is a momentum buffer
  bool nesterov = false;
  std::optional<float> clip_value = {};  ///< already rounded to fp32
  std::optional<RoundingDraw> draw =
      {};  ///< stochastic rounding; first_index belongs to grad_sum[0]. bf16 only
  /// Store bf16 parameters bypassing the caches; empty: only if this call writes much
  /// (streams_past_caches). Set it when calling block by block. The bits are the same.
  std::optional<bool> stream = {};
  float trust_ratio = 1.0F;  ///< lamb: of the tensor
  bool casts = true;         ///< false: the cast is done elsewhere (R24), and param is empty
};

/// The options of a run. `draw` and `trust_ratio` belong to the call and keep their defaults.
FusedOptions fused_options(const OptimizerHyper& hyper);

/// State of one piece. Slots not used by the rule are empty (contracts/adam.hpp, sgd.hpp).
struct FusedState {
  Span<float> master;
  PerSlot<Span<float>> slots = {};

  /// Elements [begin, begin + numel) of every buffer that is present.
  FusedState part(std::int64_t begin, std::int64_t numel) const {
    const auto of = [&](Span<float> all) { return all.empty() ? all : all.subspan(begin, numel); };
    return {of(master), per_slot([&](StateSlot slot) { return of(slots[slot]); })};
  }
};

/// lamb_norms (contracts/lamb.hpp) over grad_sum, which is unscaled and clipped in registers.
///
/// Shapes   grad_sum, master, exp_avg, exp_avg_sq of state: [numel] of one tensor. None is changed.
/// Errors   invalid_argument if the numels differ, or clip_value is not finite and > 0.
void fused_lamb_norms(const Exec& exec, const FusedOptions& options, const StepScalars& scalars,
                      float clip_coef, const GradStretch& grad_sum, const FusedState& state,
                      TrustNorms& norms);

/// Unscale, clip, clip by value, update and cast.
///
/// Shapes   grad_sum, the state buffers, param: [numel] of the same global range; no two overlap.
///          param holds fp32, bf16 or fp16; with options.draw, bf16; without options.casts it has no elements.
/// Errors   invalid_argument if the numels differ, a buffer is missing or not needed, param has another dtype,
///          clip_value is not finite and > 0, or nesterov is on without momentum.
void fused_update(const Exec& exec, const FusedOptions& options, const StepScalars& scalars,
                  float clip_coef, Span<const float> grad_sum, const FusedState& state,
                  const TensorView& param);

/// The same with a gradient sum in the type of a micro-batch gradient, fp32, bf16 or fp16, as long
/// as the state.
void fused_update(const Exec& exec, const FusedOptions& options, const StepScalars& scalars,
                  float clip_coef, const GradStretch& grad_sum, const FusedState& state,
                  const TensorView& param);

}  // namespace zeroproof::cuda::host
