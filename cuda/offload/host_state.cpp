// Offloaded state in memory of the host, where it is updated: no chunk travels.

#include "common/step/kept_buffers.hpp"
#include "cuda/offload/chunk_memory.hpp"
#include "cuda/offload/offloaded_state.hpp"

namespace zeroproof::cuda {
namespace {

class HostState : public OffloadedState {
 public:
  HostState(const OptimizerSetup& setup, const StateSplit& split, bool pinned)
      : split_(split), memory_(offloaded_buffers(setup.hyper), split.offloaded_numel(), pinned) {}

  void for_chunks(Use /*use*/, const Visit& visit) override {
    for (const StateSplit::Chunk& chunk : split_.chunks()) {
      visit(chunk, memory_.part(chunk.begin, chunk.numel, split_.offloaded_numel()));
    }
  }
  std::int64_t host_bytes() const override { return memory_.num_bytes(); }

 private:
  const StateSplit& split_;
  const ChunkMemory memory_;
};

}  // namespace

std::vector<BufferId> offloaded_buffers(const OptimizerHyper& hyper) {
  std::vector<BufferId> ids = {BufferId::master};
  for (const BufferId id : kept_buffers(hyper)) ids.push_back(id);
  return ids;
}

Span<float> buffer_of(const host::FusedState& state, BufferId id) {
  switch (id) {
    case BufferId::master:
      return state.master;
    case BufferId::exp_avg:
      return state.exp_avg;
    case BufferId::exp_avg_sq:
      return state.exp_avg_sq;
    case BufferId::max_exp_avg_sq:
      return state.max_exp_avg_sq;
    case BufferId::momentum_buffer:
      return state.momentum_buffer;
    default:
      return {};
  }
}

std::unique_ptr<OffloadedState> offload_to_host(const OptimizerSetup& setup, const StateSplit& split,
                                                bool pinned) {
  return std::make_unique<HostState>(setup, split, pinned);
}

}  // namespace zeroproof::cuda
