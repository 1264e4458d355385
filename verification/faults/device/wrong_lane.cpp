// Gradients of offloaded elements that are used before they are there.

#include <memory>
#include <optional>

#include "cuda/optimizer/production_optimizer.hpp"
#include "verification/faults/device/wrong_step.hpp"

namespace zeroproof::verification {
namespace {

/// Nobody waits for the copy.
class UnwaitedLane final : public cuda::ChunkLane {
 public:
  using ChunkLane::ChunkLane;
  const float* grads(const cuda::StateSplit::Chunk& chunk) override { return slot_of(chunk).grad.data(); }
};

/// Before the step that uses it, and after it is gone.
struct HasLane {
  explicit HasLane(cuda::RankShard& shard)
      : own(*shard.split, shard.grad->as<float>().data(), shard.params.shard(), shard.setup.offload.overlap) {
  }
  UnwaitedLane own;
};

class ReadsEarly final : HasLane, public cuda::OffloadedStep {
 public:
  ReadsEarly(cuda::RankShard& shard, cuda::OffloadedState& state, bool fused, const cuda::PhaseOps& ops)
      : HasLane(shard), OffloadedStep(shard, state, &own, fused, ops) {}
};

}  // namespace

std::unique_ptr<DistributedOptimizer> wrong_lane(std::string_view fault, const Ground& ground) {
  if (fault != "offload-grad-before-copied") return nullptr;
  cuda::OffloadMakers makers;
  makers.step = [](cuda::RankShard& shard, cuda::OffloadedState& state, cuda::ChunkLane*, bool fused,
                   const cuda::PhaseOps& ops) {
    return std::make_unique<ReadsEarly>(shard, state, fused, ops);
  };
  return on_device(ground, {.step = nullptr,
                            .inner = [makers](const OptimizerSetup& setup, const cuda::MakeLocalStep& step,
                                              const cuda::Wires& wires) {
                              return std::make_unique<cuda::ProductionOptimizer>(
                                  setup, Space::device, cuda::host_ops(), step, wires, makers);
                            }});
}

}  // namespace zeroproof::verification
