#pragma once
// The buffers a rule keeps for every element, and the update that changes them.

#include <array>

#include "common/layout/flat_layout.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "cuda/host/fused_step.hpp"
#include "cuda/phase_ops.hpp"
#include "cuda/runtime/memory_ledger.hpp"

namespace zeroproof::cuda {

/// One state buffer: its name, and where the undistributed state has it.
struct StateBuffer {
  BufferId id;
  Span<const float> FullState::*full;
};

/// Every buffer a rule may keep, in the order of R6.
inline constexpr std::array<StateBuffer, 4> state_buffers = {{
    {BufferId::exp_avg, &FullState::exp_avg},
    {BufferId::exp_avg_sq, &FullState::exp_avg_sq},
    {BufferId::max_exp_avg_sq, &FullState::max_exp_avg_sq},
    {BufferId::momentum_buffer, &FullState::momentum_buffer},
}};

/// Place of a buffer in state_buffers.
constexpr std::size_t index_of(BufferId id) {
  std::size_t i = 0;
  while (state_buffers[i].id != id) ++i;
  return i;
}

/// Whether the rule keeps that buffer.
bool keeps(const OptimizerHyper& hyper, BufferId id);

/// The rule's state on one rank, [shard_numel] each; buffers the rule does not keep have no elements.
class RuleState {
 public:
  RuleState(const OptimizerHyper& hyper, std::int64_t shard_numel, MemoryLedger& ledger);

  const GuardedBuffer& operator[](std::size_t i) const { return *buffers_[i]; }
  bool kept(std::size_t i) const { return kept_[i]; }

  /// The elements of a piece, or nothing of a buffer the rule does not keep.
  Span<float> part(std::size_t i, const Piece& piece) const {
    if (!kept_[i]) return {};
    return buffers_[i]->as<float>().subspan(static_cast<std::size_t>(piece.local_begin),
                                            static_cast<std::size_t>(piece.numel));
  }

  Span<float> part(BufferId id, const Piece& piece) const { return part(index_of(id), piece); }
  const GuardedBuffer& operator[](BufferId id) const { return *buffers_[index_of(id)]; }

  /// The rule's update of one piece (R6).
  void update(const PhaseOps& ops, const Exec& exec, const OptimizerHyper& hyper, const StepScalars& scalars,
              const Piece& piece, Span<const float> grad, Span<float> master) const;

  /// A piece of master and of every buffer the rule keeps.
  host::FusedState fused(const Piece& piece, Span<float> master) const {
    return {master, part(BufferId::exp_avg, piece), part(BufferId::exp_avg_sq, piece),
            part(BufferId::max_exp_avg_sq, piece), part(BufferId::momentum_buffer, piece)};
  }

 private:
  std::array<bool, state_buffers.size()> kept_{};
  std::array<CountedBuffer, state_buffers.size()> buffers_;
};

}  // namespace zeroproof::cuda
