#include "cuda/zero/rule_state.hpp"

#include <algorithm>

#include "common/step/kept_buffers.hpp"

namespace zeroproof::cuda {

bool keeps(const OptimizerHyper& hyper, BufferId id) {
  const std::vector<BufferId> kept = kept_buffers(hyper);
  return std::ranges::find(kept, id) != kept.end();
}

RuleState::RuleState(const OptimizerHyper& hyper, std::int64_t shard_numel, MemoryLedger& ledger) {
  for (std::size_t i = 0; i < state_buffers.size(); ++i) {
    kept_[i] = keeps(hyper, state_buffers[i].id);
    buffers_[i] = CountedBuffer(ledger, MemoryClass::state, kept_[i] ? shard_numel : 0, DType::fp32);
  }
}

void RuleState::update(const PhaseOps& ops, const Exec& exec, const OptimizerHyper& hyper,
                       const StepScalars& scalars, const Piece& piece, Span<const float> grad,
                       Span<float> master) const {
  update_by_rule(ops, exec, hyper, scalars, grad, fused(piece, master));
}

}  // namespace zeroproof::cuda
