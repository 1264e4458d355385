#pragma once
// The order in which a step makes its buffers, which is the order of their comparison.

#include <array>
#include <cstddef>

#include "common/step/phase.hpp"

namespace zeroproof::verification {

/// Every buffer after those of its phase that it is made from (R6, R24): the first difference is
/// then the cause of the others. Codes of state precede their scales, because nothing else shows the
/// updated values, of which the scales are made (R25).
inline constexpr std::array<BufferId, num_buffer_ids> making_order = {
    BufferId::step_scalars,
    BufferId::applied_steps,
    BufferId::grad_sum,
    BufferId::unscaled_grad,
    BufferId::found_inf,
    BufferId::loss_scaler,
    BufferId::norm_limbs,
    BufferId::grad_amax,
    BufferId::grad_norm,
    BufferId::clip_coef,
    BufferId::grad,
    BufferId::exp_avg,
    BufferId::exp_avg_sq,
    BufferId::max_exp_avg_sq,
    BufferId::momentum_buffer,
    BufferId::exp_avg_scale,
    BufferId::exp_avg_sq_scale,
    BufferId::max_exp_avg_sq_scale,
    BufferId::momentum_buffer_scale,
    BufferId::trust_ratio,
    BufferId::orthogonal,
    BufferId::master,
    BufferId::tensor_steps,
    BufferId::amax,
    BufferId::amax_history,
    BufferId::param_scale,
    BufferId::param_scale_inv,
    BufferId::param_shard,
    BufferId::column_amax,
    BufferId::column_scale,
    BufferId::column_scale_inv,
    BufferId::column_shard,
    BufferId::param_full,
    BufferId::param_columns,
};

/// The place of a buffer in making_order.
constexpr int making_place(BufferId id) {
  int place = 0;
  while (making_order.at(static_cast<std::size_t>(place)) != id) ++place;
  return place;
}

static_assert(
    [] {
      for (int id = 0; id < num_buffer_ids; ++id)
        if (making_place(static_cast<BufferId>(id)) < 0) return false;
      return true;
    }(),
    "a buffer that is not in making_order cannot be placed");

/// True for the buffers that the cast makes for column-wise copies with scales of their own.
constexpr bool is_cast_of_columns(BufferId id) {
  return id == BufferId::column_amax || id == BufferId::column_scale ||
         id == BufferId::column_scale_inv || id == BufferId::column_shard;
}

/// Buffers that loading a state makes together: of one phase, of column-wise copies or all others.
struct LoadedBuffers {
  Phase phase;
  bool of_columns;
};

/// The buffers of a loaded state without scales, in the order of R24: dequantised masters are made
/// of the codes, and the column-wise codes of those masters.
constexpr std::array<LoadedBuffers, 4> loading_order(bool dequantised) {
  constexpr LoadedBuffers masters{Phase::update, false}, codes{Phase::cast, false};
  return {{dequantised ? codes : masters,
           dequantised ? masters : codes,
           {Phase::cast, true},
           {Phase::gather, false}}};
}

}  // namespace zeroproof::verification
