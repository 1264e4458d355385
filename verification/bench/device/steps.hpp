#pragma once
// Models, gradients and states for the rows of whole steps.

#include <cstdint>
#include <deque>
#include <vector>

#include "common/base/digest.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "cuda/comm/memory/space_array.hpp"
#include "cuda/device/runtime/timed_event.hpp"

namespace zeroproof::verification::bench {

/// Tensors of unequal odd sizes that have at most so many elements together; one tensor has them all.
FlatLayout cut_into(std::int64_t tensors, std::int64_t numel);
std::int64_t elements_of(const FlatLayout& layout);

/// AdamW, bf16 gradients and parameters, constant loss scale, a norm that clips, one micro-batch for each rank.
OptimizerSetup device_setup(const FlatLayout& layout, const ShardMap& shards, Communicator& comm,
                            int stage);

/// The same small positive number everywhere.
class FirstState {
 public:
  explicit FirstState(const FlatLayout& layout);
  FullState view() const;

 private:
  std::vector<float> values_;
};

/// One bf16 gradient that exists before the clock starts; marks the starts of steps.
class FixedGrad final : public GradSource {
 public:
  explicit FixedGrad(const FlatLayout& layout);

  Space space() const override { return Space::device; }
  TensorView micro_batch_grad(std::int64_t micro_batch) override;

  /// Marks the next steps, at most this number; 0: none.
  void mark(std::size_t steps);
  /// From the start of the first marked step to that of the last one, for each step between. Waits.
  double seconds_per_step() const;

 private:
  std::int64_t numel_;
  cuda::SpaceArray<std::uint16_t> leaf_;
  std::deque<cuda::device::TimedEvent> marks_;
  std::size_t marked_ = 0;
  std::size_t wanted_ = 0;
};

/// Of the elements of all tensors in the buffers that a phase writes.
Digest digest_of(DistributedOptimizer& optimizer, const FlatLayout& layout, Phase phase);

}  // namespace zeroproof::verification::bench
