#include "cuda/rule_state.hpp"

namespace zeroproof::cuda {

bool keeps(const OptimizerHyper& hyper, BufferId id) {
  const bool adam = hyper.rule == UpdateRule::adamw || hyper.rule == UpdateRule::adam;
  switch (id) {
    case BufferId::exp_avg:
      return adam || hyper.rule == UpdateRule::sgd_ema;
    case BufferId::exp_avg_sq:
      return adam;
    case BufferId::max_exp_avg_sq:
      return adam && hyper.amsgrad;
    case BufferId::momentum_buffer:
      return hyper.rule == UpdateRule::sgd && hyper.momentum != 0;
    default:
      return false;
  }
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
  const Span<float> exp_avg = part(BufferId::exp_avg, piece);
  switch (hyper.rule) {
    case UpdateRule::adamw:
      return ops.adamw_update(exec, {hyper.amsgrad, hyper.maximize}, scalars, grad, master, exp_avg,
                              part(BufferId::exp_avg_sq, piece), part(BufferId::max_exp_avg_sq, piece));
    case UpdateRule::adam:
      return ops.adam_update(exec, {hyper.amsgrad, hyper.maximize}, scalars, grad, master, exp_avg,
                             part(BufferId::exp_avg_sq, piece), part(BufferId::max_exp_avg_sq, piece));
    case UpdateRule::sgd:
      return ops.sgd_update(exec, {hyper.momentum != 0, hyper.nesterov, hyper.maximize}, scalars, grad,
                            master, part(BufferId::momentum_buffer, piece));
    case UpdateRule::sgd_ema:
      return ops.sgd_ema_update(exec, {hyper.maximize}, scalars, grad, master, exp_avg);
  }
}

}  // namespace zeroproof::cuda
