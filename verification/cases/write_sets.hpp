#pragma once

#include "common/step/state_format.hpp"

namespace zeroproof::verification {

/// Whether a phase may change a storage. A candidate that reuses one gradient buffer for G, g1 and
/// g lists it as grad_sum; one that fuses the cast into the update writes param_shard there; one
/// that folds the norm into the finite check writes the limbs there.
constexpr bool may_write(Phase phase, BufferId storage) {
  using B = BufferId;
  switch (phase) {
    case Phase::prepare:
      return storage == B::step_scalars || storage == B::found_inf;
    case Phase::reduce:
      return storage == B::grad_sum;
    case Phase::unscale:
      return storage == B::grad_sum || storage == B::unscaled_grad || storage == B::found_inf ||
             storage == B::loss_scaler || storage == B::norm_limbs || storage == B::grad_amax ||
             storage == B::grad_norm || storage == B::clip_coef;
    case Phase::norm:
      return storage == B::norm_limbs || storage == B::grad_amax || storage == B::grad_norm;
    case Phase::clip:
      return storage == B::clip_coef || storage == B::grad_sum || storage == B::grad;
    case Phase::update:
      return is_state(storage) || is_state_scale(storage) || storage == B::applied_steps ||
             storage == B::tensor_steps || storage == B::trust_ratio || storage == B::orthogonal ||
             storage == B::param_shard;
    case Phase::cast:
      return storage == B::param_shard || storage == B::amax || storage == B::amax_history ||
             storage == B::param_scale || storage == B::param_scale_inv ||
             storage == B::column_amax || storage == B::column_scale ||
             storage == B::column_scale_inv || storage == B::column_shard;
    case Phase::gather:
      return storage == B::param_full || storage == B::param_columns;
  }
  return false;
}

}  // namespace zeroproof::verification
