#include "verification/compare/judge/snapshot.hpp"

#include <optional>

namespace zeroproof::verification {
namespace {

std::vector<float> copied(Span<const float> values) { return {values.begin(), values.end()}; }

PerSlot<std::vector<float>> copied(const PerSlot<Span<const float>>& from) {
  return per_slot([&](StateSlot slot) { return copied(from[slot]); });
}

PerSlot<Span<const float>> views(const PerSlot<std::vector<float>>& of) {
  return per_slot([&](StateSlot slot) { return Span<const float>(of[slot]); });
}

}  // namespace

Snapshot::Snapshot(const FullState& state)
    : master(copied(state.master)),
      slots(copied(state.slots)),
      slot_scales(copied(state.slot_scales)),
      tensor_steps(state.tensor_steps.begin(), state.tensor_steps.end()),
      param_scale(copied(state.param_scale)),
      amax_history(state.amax_history.begin(), state.amax_history.end()),
      applied_steps(state.applied_steps),
      scaler(state.scaler) {}

std::vector<float>* Snapshot::buffer(BufferId id) {
  if (id == BufferId::master) return &master;
  if (const std::optional<StateSlot> slot = slot_of(id)) return &slots[*slot];
  const std::optional<StateSlot> scaled = slot_of_scales(id);
  return scaled ? &slot_scales[*scaled] : nullptr;
}

FullState Snapshot::full() const {
  FullState state;
  state.master = master;
  state.slots = views(slots);
  state.slot_scales = views(slot_scales);
  state.tensor_steps = tensor_steps;
  state.applied_steps = applied_steps;
  state.scaler = scaler;
  state.param_scale = param_scale;
  state.amax_history = amax_history;
  return state;
}

Digest Snapshot::digest(const FlatLayout& layout) const {
  Hasher hasher;
  hasher.add(static_cast<std::uint64_t>(applied_steps));
  for (const std::int64_t word : {static_cast<std::int64_t>(scaler.log2_scale),
                                  static_cast<std::int64_t>(scaler.growth_tracker),
                                  static_cast<std::int64_t>(scaler.hysteresis_left)}) {
    hasher.add(static_cast<std::uint64_t>(word));
  }
  for (const std::uint64_t steps : tensor_steps) hasher.add(steps);
  if (!param_scale.empty()) {
    hasher.add(TensorView{const_cast<float*>(param_scale.data()), DType::fp32,
                          static_cast<std::int64_t>(param_scale.size())});
  }
  for (const std::uint32_t amax : amax_history) hasher.add(std::uint64_t{amax});
  for (const TensorSlot& slot : layout.tensors()) {
    const auto add = [&](const std::vector<float>& values, std::int64_t begin, std::int64_t numel) {
      if (values.empty()) return;
      hasher.add(TensorView{const_cast<float*>(values.data()) + begin, DType::fp32, numel});
    };
    add(master, slot.begin, slot.numel);
    for (const std::vector<float>& values : slots) add(values, slot.begin, slot.numel);
    for (const std::vector<float>& scales : slot_scales)
      add(scales, slot.begin / state_block_numel,
          (slot.numel + state_block_numel - 1) / state_block_numel);
  }
  return hasher.digest();
}

}  // namespace zeroproof::verification
