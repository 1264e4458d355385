#pragma once
// The update rules on the host as a table, and the selection of one of them.

#include "cuda/host/fused_step.hpp"
#include "cuda/host/operations.hpp"

namespace zeroproof::cuda {

/// One for each rule.
struct UpdateOperations {
  AdamwUpdateFn* adamw_update;
  AdamUpdateFn* adam_update;
  SgdUpdateFn* sgd_update;
  SgdEmaUpdateFn* sgd_ema_update;
  LionUpdateFn* lion_update;
  LambUpdateFn* lamb_update;
};

inline constexpr UpdateOperations host_updates = {
    .adamw_update = host::adamw_update,
    .adam_update = host::adam_update,
    .sgd_update = host::sgd_update,
    .sgd_ema_update = host::sgd_ema_update,
    .lion_update = host::lion_update,
    .lamb_update = host::lamb_update,
};

/// trust_ratio: of the piece's tensor; used by the rule lamb alone.
inline void update_by_rule(const UpdateOperations& implementations, const Exec& exec,
                           const OptimizerHyper& hyper, const StepScalars& scalars,
                           Span<const float> grad, const host::FusedState& state,
                           float trust_ratio = 1.0F) {
  using enum StateSlot;
  const PerSlot<Span<float>>& slots = state.slots;
  const AdamOptions adam{hyper.amsgrad, hyper.maximize};
  switch (hyper.rule) {
    case UpdateRule::muon:  // of a tensor that is no matrix (R28)
    case UpdateRule::adamw:
      return implementations.adamw_update(exec, adam, scalars, grad, state.master, slots[exp_avg],
                                          slots[exp_avg_sq], slots[max_exp_avg_sq]);
    case UpdateRule::adam:
      return implementations.adam_update(exec, adam, scalars, grad, state.master, slots[exp_avg],
                                         slots[exp_avg_sq], slots[max_exp_avg_sq]);
    case UpdateRule::sgd:
      return implementations.sgd_update(exec, {hyper.momentum != 0, hyper.nesterov, hyper.maximize},
                                        scalars, grad, state.master, slots[momentum_buffer]);
    case UpdateRule::sgd_ema:
      return implementations.sgd_ema_update(exec, {hyper.maximize}, scalars, grad, state.master,
                                            slots[exp_avg]);
    case UpdateRule::lion:
      return implementations.lion_update(exec, {hyper.maximize}, scalars, grad, state.master,
                                         slots[exp_avg]);
    case UpdateRule::lamb:
      return implementations.lamb_update(exec, {hyper.maximize}, scalars, trust_ratio, grad,
                                         state.master, slots[exp_avg], slots[exp_avg_sq]);
  }
}

}  // namespace zeroproof::cuda
