#pragma once

#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/guarded_buffer.hpp"
#include "cuda/device/runtime/raw_array.hpp"
#include "cuda/offload/offloaded_state.hpp"

namespace zeroproof::cuda {

/// Room on the host for some elements of every buffer a rule keeps, one buffer after another. NaN at birth.
class ChunkMemory {
 public:
  ChunkMemory(std::vector<BufferId> ids, std::int64_t numel, bool pinned)
      : ids_(std::move(ids)), numel_(numel) {
    const std::int64_t all = numel * static_cast<std::int64_t>(ids_.size());
    if (pinned) {
      pinned_.emplace(all);
    } else {
      plain_ = GuardedBuffer(all, DType::fp32);
    }
    poison();
  }

  float* data() const { return pinned_ ? pinned_->data() : static_cast<float*>(plain_.data()); }
  std::int64_t num_bytes() const { return numel_ * static_cast<std::int64_t>(ids_.size() * sizeof(float)); }
  void poison() const {
    if (num_bytes() > 0) std::memset(data(), 0xFF, static_cast<std::size_t>(num_bytes()));
  }
  /// False if somebody wrote outside of it; pinned memory has no red zones.
  bool intact() const { return plain_.guards_intact(); }

  /// The buffers' elements from `begin` on. stride: between the beginnings of two buffers.
  host::FusedState part(std::int64_t begin, std::int64_t numel, std::int64_t stride) const {
    host::FusedState state;
    float* at = data() + begin;
    for (const BufferId id : ids_) {
      const Span<float> values(at, static_cast<std::size_t>(numel));
      if (id == BufferId::master) state.master = values;
      if (id == BufferId::exp_avg) state.exp_avg = values;
      if (id == BufferId::exp_avg_sq) state.exp_avg_sq = values;
      if (id == BufferId::max_exp_avg_sq) state.max_exp_avg_sq = values;
      if (id == BufferId::momentum_buffer) state.momentum_buffer = values;
      at += stride;
    }
    return state;
  }

 private:
  std::vector<BufferId> ids_;
  std::int64_t numel_;
  GuardedBuffer plain_;
  std::optional<PinnedArray<float>> pinned_;
};

}  // namespace zeroproof::cuda
