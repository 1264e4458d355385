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
  step_scalars,   ///< StepScalars, as 10 words [u32]
  applied_steps,  ///< t of the last applied step [u64]
  grad_sum,       ///< G: canonical tree sum of the leaves [shard_numel]
  unscaled_grad,  ///< g1 = G * inv_scale [shard_numel]
  found_inf,      ///< OR over all ranks [u32]
  loss_scaler,    ///< LossScalerState, 3 words [u32]
  norm_limbs,     ///< all ranks' limbs, normalised, then nan_count, inf_count [23 u64]
  grad_norm,      ///< N [fp64]
  clip_coef,      ///< [fp32]
  grad,           ///< g = g1 * clip_coef [shard_numel]
  exp_avg,        ///< [shard_numel]
  exp_avg_sq,     ///< [shard_numel]
  master,         ///< [shard_numel]
  param_shard,    ///< RNE(master) in the parameter dtype [shard_numel]
  param_full,     ///< parameters the model sees [padded_numel]
};

inline constexpr int num_buffer_ids = 15;

std::string_view name(Phase phase);
std::string_view name(BufferId buffer);

/// True for the phases that are not entered on a step with found_inf: norm, clip, update, cast, gather.
bool skipped_on_overflow(Phase phase);

}  // namespace zeroproof
