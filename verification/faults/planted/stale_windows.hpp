#pragma once
// A rank that reads shared memory before its fence.

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "verification/faults/planted/wrong_groups.hpp"

namespace zeroproof::verification {

/// Rank 0 reads the data of two fences ago: the effect of a missing wait, made deterministic. Two
/// fences of the group replace each fence.
class StaleWindow final : public SharedWindow {
 public:
  StaleWindow(std::unique_ptr<SharedWindow> inner, int rank, int world_size)
      : inner_(std::move(inner)), reads_early_(rank == 0) {
    for (int other = 0; other < world_size; ++other) {
      const Span<const std::byte> now = inner_->of(other);
      seen_.emplace_back(now.size(), std::byte{0xFF});  // as new memory is filled
      next_.emplace_back(now.size(), std::byte{0xFF});
    }
  }

  Span<std::byte> of(int rank) const override {
    return reads_early_ && rank != 0 ? Span<std::byte>(seen_[rank]) : inner_->of(rank);
  }

  void fence() override {
    inner_->fence();
    for (std::size_t rank = 0; reads_early_ && rank < seen_.size(); ++rank) {
      std::ranges::copy(next_[rank], seen_[rank].begin());
      std::ranges::copy(inner_->of(static_cast<int>(rank)), next_[rank].begin());
    }
    inner_->fence();
  }

 private:
  std::unique_ptr<SharedWindow> inner_;
  const bool reads_early_;
  mutable std::vector<std::vector<std::byte>> seen_;
  std::vector<std::vector<std::byte>> next_;
};

/// One window of a group is read that way: the n-th that the ranks create.
class EarlyReader final : public WrappedCommunicator {
 public:
  EarlyReader(Communicator& inner, int which) : WrappedCommunicator(inner), which_(which) {}

  std::unique_ptr<SharedWindow> shared_window(std::int64_t num_bytes) override {
    std::unique_ptr<SharedWindow> window = inner_.shared_window(num_bytes);
    if (++made_ != which_ || window == nullptr) return window;
    return std::make_unique<StaleWindow>(std::move(window), rank(), world_size());
  }

 private:
  const int which_;
  int made_ = 0;
};

}  // namespace zeroproof::verification
