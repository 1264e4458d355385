// What taps and comparisons see of the production optimizer.

#include <algorithm>
#include <utility>

#include "cuda/zero/production_optimizer.hpp"

namespace zeroproof::cuda {

std::vector<ExposedBuffer> ProductionOptimizer::exposed(Phase phase) {
  const bool phases = !fused_;
  std::vector<ExposedBuffer> buffers;
  switch (phase) {
    case Phase::prepare:
      return {{BufferId::step_scalars, steps_.scalars_view(), {}}};
    case Phase::reduce:
      if (!sum_.in_buffer()) {
        pieces_.run(setup_.exec, [&](const Exec& exec, const Piece& piece) { sum_.write_out(exec, piece); });
        sum_.set_in_buffer();
      }
      return {sharded(BufferId::grad_sum, *grad_)};
    case Phase::unscale:
      if (phases) buffers.push_back(sharded(BufferId::unscaled_grad, *grad_));
      buffers.push_back({BufferId::found_inf, {&found_inf_, DType::u32, 1}, {}});
      buffers.push_back({BufferId::loss_scaler, {&scaler_, DType::u32, sizeof(scaler_) / 4}, {}});
      return buffers;
    case Phase::norm:
      return {global_norm_.exposed(), {BufferId::grad_norm, {&grad_norm_, DType::fp64, 1}, {}}};
    case Phase::clip:
      buffers.push_back({BufferId::clip_coef, {&clip_coef_, DType::fp32, 1}, {}});
      if (phases) buffers.push_back(sharded(BufferId::grad, *grad_));
      return buffers;
    case Phase::update:
      for (std::size_t i = 0; i < state_buffers.size(); ++i) {
        if (state_.kept(i)) buffers.push_back(sharded(state_buffers[i].id, state_[i]));
      }
      buffers.push_back(sharded(BufferId::master, *master_));
      buffers.push_back({BufferId::applied_steps, steps_.applied_steps_view(), {}});
      if (steps_.per_tensor()) buffers.push_back({BufferId::tensor_steps, steps_.tensor_steps_view(), {}});
      return buffers;
    case Phase::cast:
      param_store_.show();
      return {{BufferId::param_shard, param_store_.shard(), ranges_}};
    case Phase::gather:
      if (setup_.stage == 3 && params_.full_ranges().empty()) return {};
      return {{BufferId::param_full, params_.full(), params_.full_ranges(), param_store_.one_copy()}};
  }
  return buffers;
}

std::vector<ExposedBuffer> ProductionOptimizer::storage() {
  std::vector<ExposedBuffer> buffers;
  for (const Phase phase : all_phases) {
    for (ExposedBuffer& buffer : exposed(phase)) {
      const bool seen = std::ranges::any_of(buffers, [&](const ExposedBuffer& other) {
        return other.view.data == buffer.view.data && other.view.numel > 0;
      });
      if (!seen) buffers.push_back(std::move(buffer));
    }
  }
  return buffers;
}

std::string ProductionOptimizer::damaged_guard() const {
  const std::pair<const char*, const GuardedBuffer*> all[] = {
      {"grad", &*grad_}, {"master", &*master_}, {"param_full", &params_.full_buffer()}};
  for (const auto& [name, buffer] : all) {
    if (!buffer->guards_intact()) return name;
  }
  if (!param_store_.guards_intact()) return "param_shard";
  for (std::size_t i = 0; i < state_buffers.size(); ++i) {
    if (!state_[i].guards_intact()) return std::string(name(state_buffers[i].id));
  }
  return {};
}

}  // namespace zeroproof::cuda
