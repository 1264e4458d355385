// Offloaded state in host memory, where it is updated in place without copies of chunks.

#include <algorithm>
#include <functional>

#include "common/step/state_buffers.hpp"
#include "cuda/offload/chunk_memory.hpp"
#include "cuda/offload/offloaded_state.hpp"

namespace zeroproof::cuda {
namespace {

class HostState : public OffloadedState {
 public:
  HostState(const OptimizerSetup& setup, const StateSplit& split, bool pinned)
      : split_(split), memory_(offloaded_buffers(setup), split.offloaded_numel(), pinned) {}

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

std::vector<OffloadedBuffer> offloaded_buffers(const OptimizerSetup& setup) {
  const StateFormats& formats = setup.state_formats;
  const bool half = formats.master == MasterFormat::bf16;
  std::vector<OffloadedBuffer> buffers = {{BufferId::master, half ? DType::bf16 : DType::fp32}};
  for (const StateSlot slot : kept_slots(setup.hyper)) {
    buffers.push_back({buffer_of(slot), dtype_of(formats.of(slot))});
    if (has_scales(formats.of(slot))) buffers.push_back({scales_of(slot), DType::fp32});
  }
  std::ranges::stable_sort(buffers, std::ranges::greater{},
                           [](const OffloadedBuffer& one) { return num_bytes(one.dtype); });
  return buffers;
}

std::int64_t offloaded_bytes(const std::vector<OffloadedBuffer>& buffers, std::int64_t numel) {
  std::int64_t bytes = 0;
  for (const OffloadedBuffer& buffer : buffers) bytes += buffer.num_bytes(numel);
  return bytes;
}

TensorView ChunkState::operator[](BufferId id) const {
  const auto found = std::ranges::find(buffers_, id, &Buffer::id);
  return found == buffers_.end() ? TensorView{} : found->values;
}

host::FusedState ChunkState::fused() const {
  const auto values = [&](BufferId id) {
    const TensorView view = (*this)[id];
    if (view.dtype != DType::fp32) return Span<float>();
    return Span<float>(static_cast<float*>(view.data), static_cast<std::size_t>(view.numel));
  };
  return {values(BufferId::master),
          per_slot([&](StateSlot slot) { return values(buffer_of(slot)); })};
}

std::unique_ptr<OffloadedState> offload_to_host(const OptimizerSetup& setup,
                                                const StateSplit& split, bool pinned) {
  return std::make_unique<HostState>(setup, split, pinned);
}

}  // namespace zeroproof::cuda
