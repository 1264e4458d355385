#pragma once
// Buffers of the optimizer's persistent state, which is stored in checkpoints (R6).

#include <optional>
#include <string_view>
#include <vector>

#include "common/contracts/step_scalars.hpp"
#include "common/step/phase.hpp"

namespace zeroproof {

/// The values of a slot: [shard_numel], in the format of R25.
constexpr BufferId buffer_of(StateSlot slot) {
  return static_cast<BufferId>(static_cast<int>(BufferId::exp_avg) + static_cast<int>(slot));
}

/// Their scales (R25).
constexpr BufferId scales_of(StateSlot slot) {
  return static_cast<BufferId>(static_cast<int>(BufferId::exp_avg_scale) + static_cast<int>(slot));
}

static_assert(buffer_of(StateSlot::momentum_buffer) == BufferId::momentum_buffer &&
                  scales_of(StateSlot::momentum_buffer) == BufferId::momentum_buffer_scale,
              "BufferId has values and scales in the order of the slots");

inline std::string_view name(StateSlot slot) { return name(buffer_of(slot)); }

/// The slot of a buffer of values; none for other buffers.
constexpr std::optional<StateSlot> slot_of(BufferId id) {
  for (const StateSlot slot : all_state_slots) {
    if (buffer_of(slot) == id) return slot;
  }
  return std::nullopt;
}

/// The slot of a buffer of scales; none for other buffers.
constexpr std::optional<StateSlot> slot_of_scales(BufferId id) {
  for (const StateSlot slot : all_state_slots) {
    if (scales_of(slot) == id) return slot;
  }
  return std::nullopt;
}

/// True for the master weights and the values of slots.
constexpr bool is_state(BufferId id) { return id == BufferId::master || slot_of(id).has_value(); }

/// True for the scales of a slot.
constexpr bool is_state_scale(BufferId id) { return slot_of_scales(id).has_value(); }

/// Whether a run keeps a slot from step to step. Errors: invalid_argument if there is no such rule.
constexpr bool keeps(const OptimizerHyper& hyper, StateSlot slot) {
  if (!traits_of(hyper.rule).keeps[slot]) return false;
  if (slot == StateSlot::max_exp_avg_sq) return hyper.amsgrad;
  return slot != StateSlot::momentum_buffer || hyper.momentum != 0;
}

/// The kept slots in the order of R6; none for sgd without momentum. Errors: as keeps().
std::vector<StateSlot> kept_slots(const OptimizerHyper& hyper);

}  // namespace zeroproof
