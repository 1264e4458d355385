// What taps and comparisons see of the production optimizer.

#include <algorithm>
#include <utility>

#include "cuda/optimizer/production_optimizer.hpp"

namespace zeroproof::cuda {

std::vector<ExposedBuffer> ProductionOptimizer::exposed(Phase phase) {
  if (phase == Phase::cast) {
    param_store_.show();
    std::vector<ExposedBuffer> buffers = scales_.exposed();
    buffers.push_back({BufferId::param_shard, param_store_.shard(), ranges_});
    for (ExposedBuffer& buffer : columns_.exposed()) buffers.push_back(std::move(buffer));
    return buffers;
  }
  if (phase == Phase::gather) {
    if (setup_.stage == 3 && params_.full_ranges().empty()) return {};
    std::vector<ExposedBuffer> buffers = {
        {BufferId::param_full, params_.full(), params_.full_ranges(), param_store_.one_copy()}};
    if (columns_) {
      buffers.push_back(
          {BufferId::param_columns, columns_.view(), params_.full_ranges(), columns_.one_copy()});
    }
    return buffers;
  }
  return step_->exposed(phase);
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
  if (const std::string_view name = columns_.damaged_guard(); !name.empty()) return std::string(name);
  if (const std::string_view name = scales_.damaged_guard(); !name.empty()) return std::string(name);
  for (std::size_t i = 0; i < state_buffers.size(); ++i) {
    if (!state_[i].guards_intact()) return std::string(name(state_buffers[i].id));
    if (!state_.scales(i).guards_intact()) return std::string(name(scales_of(state_buffers[i].id)));
  }
  return {};
}

}  // namespace zeroproof::cuda
