#include "cuda/optimizer/rank_memory.hpp"

#include <string_view>
#include <utility>
#include <vector>

#include "cuda/optimizer/state/state_ranges.hpp"

namespace zeroproof::cuda {
namespace {

std::unique_ptr<SharedMemoryGroup> find_near(const OptimizerSetup& setup) {
  if (setup.windows == Windows::off || setup.comm->world_size() == 1) return nullptr;
  return std::make_unique<SharedMemoryGroup>(*setup.comm);
}

std::unique_ptr<OffloadedState> offload_state(const RankLayout& layout, Space space,
                                              const MakeOffloadedState& make) {
  if (!layout.split) return nullptr;
  if (make) return make(layout.setup, *layout.split);
  if (layout.setup.offload.place == OffloadPlace::file)
    return offload_to_file(layout.setup, *layout.split);
  return offload_to_host(layout.setup, *layout.split, space == Space::device);
}

std::unique_ptr<OffloadedGradBuffer> offload_grad(const RankLayout& layout, MemoryLedger& ledger) {
  if (!layout.split || !layout.setup.offload.moves_grads()) return nullptr;
  return std::make_unique<OffloadedGradBuffer>(layout.setup.offload, *layout.split, ledger);
}

/// G of every rank in memory where the others can read their parts of it.
std::unique_ptr<SharedBuffers> share_grad(const OptimizerSetup& setup,
                                          const SharedMemoryGroup* near) {
  if (setup.stage > 0 || near == nullptr || !near->all()) return nullptr;
  const auto world = static_cast<std::size_t>(setup.comm->world_size());
  return std::make_unique<SharedBuffers>(
      near->group(),
      std::vector<SharedBuffers::Shapes>(world, {{setup.layout->padded_numel(), DType::fp32}}));
}

CountedBuffer grad_buffer(const RankLayout& layout, SharedBuffers* shared,
                          OffloadedGradBuffer* offloaded, MemoryLedger& ledger) {
  if (shared != nullptr) return shared->mine(0, ledger, MemoryClass::grad_sum);
  if (offloaded != nullptr) return offloaded->buffer();
  return {ledger, MemoryClass::grad_sum, total_numel(layout.ranges), DType::fp32};
}

DType master_dtype(const OptimizerSetup& setup) {
  return setup.state_formats.master == MasterFormat::bf16 ? DType::bf16 : DType::fp32;
}

std::unique_ptr<StateBlocks> state_blocks_of(const RankLayout& layout, Space space,
                                             const RuleState& state, const CountedBuffer& master) {
  const bool in_kernels = space == Space::device && !layout.split;
  if (layout.setup.state_formats.plain() || in_kernels) return nullptr;
  return std::make_unique<StateBlocks>(layout.setup, layout.resident_pieces(), state, master,
                                       layout.split.get());
}

}  // namespace

RankMemory::RankMemory(const RankLayout& layout, Space space,
                       const MakeOffloadedState& make_offloaded)
    : ledger(space_of(space), layout.setup.guards),
      near(find_near(layout.setup)),
      messages(ledger, layout.setup.guards, layout.comm_groups),
      offloaded(offload_state(layout, space, make_offloaded)),
      offloaded_grad(offload_grad(layout, ledger)),
      shared_grad(share_grad(layout.setup, near.get())),
      grad(grad_buffer(layout, shared_grad.get(), offloaded_grad.get(), ledger)),
      master(ledger, MemoryClass::master, layout.resident_numel(), master_dtype(layout.setup)),
      state(layout.setup.hyper, layout.setup.state_formats, layout.resident_numel(),
            blocks_of_state(layout.setup, layout.resident_pieces()), ledger),
      orthogonal(ledger, MemoryClass::state, layout.matrices ? total_numel(layout.ranges) : 0,
                 DType::fp32),
      blocks(state_blocks_of(layout, space, state, master)) {}

MemoryUse RankMemory::use() const {
  MemoryUse use = ledger.use();
  if (offloaded) use.offloaded_file += offloaded->file_bytes();
  if (!offloaded_grad) return use;
  use.offloaded_host += offloaded_grad->host_bytes();
  use.offloaded_file += offloaded_grad->file_bytes();
  return use;
}

std::string RankMemory::damaged_guard() const {
  if (!grad->guards_intact()) return "grad";
  if (!master->guards_intact()) return "master";
  if (!orthogonal->guards_intact()) return std::string(name(BufferId::orthogonal));
  for (const StateSlot slot : all_state_slots) {
    if (!state[slot].guards_intact()) return std::string(name(slot));
    if (!state.scales(slot).guards_intact()) return std::string(name(scales_of(slot)));
  }
  return {};
}

}  // namespace zeroproof::cuda
