#pragma once

#include <memory>
#include <string>

#include "cuda/comm/exchange/grad_memory.hpp"
#include "cuda/comm/exchange/shared_buffers.hpp"
#include "cuda/comm/exchange/shared_memory_group.hpp"
#include "cuda/offload/offloaded_grad_buffer.hpp"
#include "cuda/offload/offloaded_state.hpp"
#include "cuda/optimizer/overlap/memory_ledger.hpp"
#include "cuda/optimizer/rank_layout.hpp"
#include "cuda/optimizer/state/rule_state.hpp"
#include "cuda/optimizer/state/state_blocks.hpp"

namespace zeroproof::cuda {

/// Gradients, master and state of one rank, with the ledger that counts all its buffers. Each
/// member may use those before it.
struct RankMemory {
  /// Collective over comm, if ranks share memory. make_offloaded: null: chosen by the setup. The
  /// layout outlives this.
  RankMemory(const RankLayout& layout, Space space, const MakeOffloadedState& make_offloaded);
  RankMemory(const RankMemory&) = delete;
  RankMemory& operator=(const RankMemory&) = delete;

  const MemorySpace& space() const { return ledger.space(); }
  /// What the ledger counts, and offloaded gradients.
  MemoryUse use() const;
  /// Name of a buffer whose red zone was overwritten, "" if none was.
  std::string damaged_guard() const;

  MemoryLedger ledger;
  const std::unique_ptr<SharedMemoryGroup> near;  ///< null: by messages only
  GradMemory messages;
  const std::unique_ptr<OffloadedState> offloaded;            ///< null: nothing is offloaded
  const std::unique_ptr<OffloadedGradBuffer> offloaded_grad;  ///< null: G is with the others
  const std::unique_ptr<SharedBuffers> shared_grad;  ///< stage 0 on ranks of one machine, or null
  CountedBuffer grad;  ///< G, unless it is a micro-batch gradient, then later phases' values
  CountedBuffer master;
  RuleState state;
  CountedBuffer orthogonal;  ///< rule muon: [shard_numel] fp32, elements of O (R28); else empty
  const std::unique_ptr<StateBlocks> blocks;  ///< null: all is fp32, or kernels read and store it
};

}  // namespace zeroproof::cuda
