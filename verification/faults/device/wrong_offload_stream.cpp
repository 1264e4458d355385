// Gradients of offloaded elements that are used before they have arrived.

#include <memory>
#include <optional>

#include "cuda/optimizer/production_optimizer.hpp"
#include "verification/faults/device/wrong_step.hpp"

namespace zeroproof::verification {
namespace {

/// No stream waits for the copy.
class UnwaitedStream final : public cuda::OffloadStream {
 public:
  using OffloadStream::OffloadStream;
  const float* grads(const cuda::StateSplit::Chunk& chunk) override {
    return slot_of(chunk).grad.data();
  }
};

/// Before the step that uses it, and after it was freed.
struct HasStream {
  explicit HasStream(cuda::RankShard& shard)
      : own(*shard.split, shard.grad->as<float>().data(), shard.params.shard(),
            shard.setup.offload.overlap) {}
  UnwaitedStream own;
};

class ReadsEarly final : HasStream, public cuda::ChunkedHostStep {
 public:
  ReadsEarly(cuda::RankShard& shard, cuda::OffloadedState& state, bool fused,
             const cuda::KernelTable& ops)
      : HasStream(shard), ChunkedHostStep(shard, state, &own, fused, ops) {}
};

}  // namespace

std::unique_ptr<DistributedOptimizer> wrong_lane(std::string_view fault,
                                                 const FaultContext& context) {
  if (fault != "offload-grad-before-copied") return nullptr;
  cuda::OffloadMakers makers;
  makers.step = [](cuda::RankShard& shard, cuda::OffloadedState& state, cuda::OffloadStream*,
                   bool fused, const cuda::KernelTable& ops) {
    return std::make_unique<ReadsEarly>(shard, state, fused, ops);
  };
  return on_device(context,
                   {.step = nullptr,
                    .inner = [makers](const OptimizerSetup& setup, const cuda::MakeLocalStep& step,
                                      const cuda::CommGroups& transport) {
                      return std::make_unique<cuda::ProductionOptimizer>(
                          setup, Space::device, cuda::host_ops(), step, transport, makers);
                    }});
}

}  // namespace zeroproof::verification
