#include "verification/tools/train/whole_state.hpp"

#include "common/base/error.hpp"

namespace zeroproof::verification {

Snapshot whole_state(const StateSource& source, const OptimizerSetup& setup,
                     const FlatLayout& whole) {
  ZP_CHECK(setup.placement.empty(), ErrorCode::config, "a whole state was requested on a TP rank",
           "it has a part of each tensor", "use a grid without tensor parallelism");
  Snapshot state;
  state.applied_steps = source.applied_steps();
  state.scaler = source.scaler();
  state.tensor_steps = source.tensor_steps();
  state.param_scale = source.param_scale();
  state.amax_history = source.amax_history();
  const auto read = [&](BufferId id, std::vector<float>& values) {
    if (!source.has(id)) return;
    values.assign(static_cast<std::size_t>(whole.padded_numel()), 0.0F);
    for (const TensorSlot& slot : whole.tensors()) {
      if (slot.numel == 0) continue;
      source.read(id, slot.begin,
                  Span<float>(values.data() + slot.begin, static_cast<std::size_t>(slot.numel)));
    }
  };
  read(BufferId::master, state.master);
  for (const StateSlot slot : all_state_slots) read(buffer_of(slot), state.slots[slot]);
  for (const StateSlot slot : all_state_slots) {
    if (!source.has(scales_of(slot))) continue;
    std::vector<float>& scales = state.slot_scales[slot];
    scales.assign(static_cast<std::size_t>(whole.padded_numel() / state_block_numel), 0.0F);
    source.read(scales_of(slot), 0, scales);
  }
  return state;
}

}  // namespace zeroproof::verification
