#include "verification/compare/judge/snapshot.hpp"

namespace zeroproof::verification {
namespace {

std::vector<float> copied(Span<const float> values) { return {values.begin(), values.end()}; }

}  // namespace

Snapshot::Snapshot(const FullState& state)
    : master(copied(state.master)),
      exp_avg(copied(state.exp_avg)),
      exp_avg_sq(copied(state.exp_avg_sq)),
      max_exp_avg_sq(copied(state.max_exp_avg_sq)),
      momentum_buffer(copied(state.momentum_buffer)),
      exp_avg_scale(copied(state.exp_avg_scale)),
      exp_avg_sq_scale(copied(state.exp_avg_sq_scale)),
      max_exp_avg_sq_scale(copied(state.max_exp_avg_sq_scale)),
      momentum_buffer_scale(copied(state.momentum_buffer_scale)),
      tensor_steps(state.tensor_steps.begin(), state.tensor_steps.end()),
      param_scale(copied(state.param_scale)),
      amax_history(state.amax_history.begin(), state.amax_history.end()),
      applied_steps(state.applied_steps),
      scaler(state.scaler) {}

std::vector<float>* Snapshot::buffer(BufferId id) {
  switch (id) {
    case BufferId::master:
      return &master;
    case BufferId::exp_avg:
      return &exp_avg;
    case BufferId::exp_avg_sq:
      return &exp_avg_sq;
    case BufferId::max_exp_avg_sq:
      return &max_exp_avg_sq;
    case BufferId::momentum_buffer:
      return &momentum_buffer;
    case BufferId::exp_avg_scale:
      return &exp_avg_scale;
    case BufferId::exp_avg_sq_scale:
      return &exp_avg_sq_scale;
    case BufferId::max_exp_avg_sq_scale:
      return &max_exp_avg_sq_scale;
    case BufferId::momentum_buffer_scale:
      return &momentum_buffer_scale;
    default:
      return nullptr;
  }
}

FullState Snapshot::full() const {
  FullState state;
  state.master = master;
  state.exp_avg = exp_avg;
  state.exp_avg_sq = exp_avg_sq;
  state.max_exp_avg_sq = max_exp_avg_sq;
  state.momentum_buffer = momentum_buffer;
  state.exp_avg_scale = exp_avg_scale;
  state.exp_avg_sq_scale = exp_avg_sq_scale;
  state.max_exp_avg_sq_scale = max_exp_avg_sq_scale;
  state.momentum_buffer_scale = momentum_buffer_scale;
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
    for (const std::vector<float>* values :
         {&master, &exp_avg, &exp_avg_sq, &max_exp_avg_sq, &momentum_buffer}) {
      if (values->empty()) continue;
      hasher.add(
          TensorView{const_cast<float*>(values->data()) + slot.begin, DType::fp32, slot.numel});
    }
    for (const std::vector<float>* scales :
         {&exp_avg_scale, &exp_avg_sq_scale, &max_exp_avg_sq_scale, &momentum_buffer_scale}) {
      if (scales->empty()) continue;
      hasher.add(TensorView{const_cast<float*>(scales->data()) + slot.begin / state_block_numel,
                            DType::fp32, (slot.numel + state_block_numel - 1) / state_block_numel});
    }
  }
  return hasher.digest();
}

}  // namespace zeroproof::verification
