#pragma once
// The phases of one training step and the buffers each of them may write (R6).

#include <array>
#include <cstdint>
#include <string_view>

namespace zeroproof {

enum class Phase : std::uint8_t { prepare, reduce, unscale, norm, clip, update, cast, gather };

inline constexpr std::array<Phase, 8> all_phases = {Phase::prepare, Phase::reduce, Phase::unscale,
                                                    Phase::norm,    Phase::clip,   Phase::update,
                                                    Phase::cast,    Phase::gather};

enum class BufferId : std::uint8_t {
  step_scalars,   ///< StepScalars, 15 words [u32]; under missing_grad = skip one set per tensor
  applied_steps,  ///< t of the last applied step [u64]
  grad_sum,       ///< G: canonical tree sum of the micro-batch gradients [shard_numel]
  unscaled_grad,  ///< g1 = G * inv_scale [shard_numel]
  found_inf,      ///< OR over all ranks [u32]
  loss_scaler,    ///< LossScalerState, 3 words [u32]
  norm_limbs,  ///< [clip groups]: limbs, normalised, nan_count, inf_count [23 u64]; not with the form inf
  grad_amax,        ///< [clip groups]: largest magnitude as bits [u32]; only with the form inf
  grad_norm,        ///< [clip groups]: N [fp64]
  clip_coef,        ///< [clip groups, fp32]
  grad,             ///< g = g1 * clip_coef [shard_numel]
  exp_avg,          ///< [shard_numel], of rules that have it (contracts/update_rule.hpp)
  exp_avg_sq,       ///< [shard_numel], the same
  max_exp_avg_sq,   ///< [shard_numel], with amsgrad
  momentum_buffer,  ///< [shard_numel], sgd with momentum
  exp_avg_scale,  ///< scale_inv of the blocks with elements of this rank (R25) [fp32]; its ranges count blocks
  exp_avg_sq_scale,       ///< the same
  max_exp_avg_sq_scale,   ///< the same
  momentum_buffer_scale,  ///< the same
  master,                 ///< [shard_numel]
  tensor_steps,  ///< applied updates of every tensor [num_tensors u64], under missing_grad = skip
  param_shard,   ///< master rounded to the parameter dtype [shard_numel]
  param_full,    ///< parameters that the model reads [padded_numel]
  amax,  ///< of the blocks of all tensors, joined over ranks [num_blocks u32]; with scales only (R24)
  amax_history,     ///< [num_blocks * history u32]; under the recipe delayed
  param_scale,      ///< [num_blocks fp32]; with scales only, as the following
  param_scale_inv,  ///< [num_blocks fp32]: factor that decodes codes
  param_columns,    ///< the column-wise copy of param_full; with columnwise
  column_amax,  ///< as amax, for blocks of one column [num_column_blocks u32]; the following too, and all of them only
                ///< where column-wise copies have scales of their own (R24)
  column_scale,      ///< [num_column_blocks fp32]
  column_scale_inv,  ///< [num_column_blocks fp32]
  column_shard,      ///< codes of the masters by column_scale [shard_numel]
  trust_ratio,  ///< [num_tensors fp32], of rules that have it (R6); 1 for a tensor that is not updated
  orthogonal,  ///< [shard_numel], with the rule muon: elements of the results of Newton-Schulz (R28); +0 outside of
               ///< matrices, and of a tensor that is not updated
};

inline constexpr int num_buffer_ids = 34;

std::string_view name(Phase phase);
std::string_view name(BufferId buffer);

/// True for the phases that are not entered on a step with found_inf under on_nonfinite = skip:
/// norm, clip, update, cast, gather.
bool skipped_on_overflow(Phase phase);

}  // namespace zeroproof
