#pragma once

#include <memory>

#include "cuda/device/runtime/runtime.hpp"

namespace zeroproof::cuda {

/// The stream of a rank on its device. Host threads may change between two phases of a step; the
/// work of a rank stays in one order because it is enqueued within an Inside.
class RankStream {
 public:
  /// local_rank: its number among the ranks that share the machine's devices.
  explicit RankStream(int local_rank) : local_rank_(local_rank) {
    device::choose_device(local_rank);
    stream_ = std::make_unique<device::Stream>();
  }

  class Inside {
   public:
    explicit Inside(const RankStream& rank)
        : use_((device::choose_device(rank.local_rank_), *rank.stream_)) {}

   private:
    device::UseStream use_;
  };

 private:
  int local_rank_;
  std::unique_ptr<device::Stream> stream_;
};

}  // namespace zeroproof::cuda
