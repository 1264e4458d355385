#pragma once
// The update rule that a run calls.

#include "reference/operations.hpp"

namespace zeroproof::reference {

/// The state of one piece; slots the rule does not keep are empty.
using StateSpans = PerSlot<Span<float>>;

/// trust_ratio: of the tensor; only rules with one read it.
inline void update_by_rule(const OptimizerHyper& hyper, const StepScalars& scalars,
                           float trust_ratio, Span<const float> grad, Span<float> master,
                           const StateSpans& state) {
  using enum StateSlot;
  switch (hyper.rule) {
    case UpdateRule::muon:  // of a tensor that is no matrix (R28)
    case UpdateRule::adamw:
      return adamw_update({}, {hyper.amsgrad, hyper.maximize}, scalars, grad, master,
                          state[exp_avg], state[exp_avg_sq], state[max_exp_avg_sq]);
    case UpdateRule::adam:
      return adam_update({}, {hyper.amsgrad, hyper.maximize}, scalars, grad, master, state[exp_avg],
                         state[exp_avg_sq], state[max_exp_avg_sq]);
    case UpdateRule::sgd:
      return sgd_update({}, {hyper.momentum != 0, hyper.nesterov, hyper.maximize}, scalars, grad,
                        master, state[momentum_buffer]);
    case UpdateRule::sgd_ema:
      return sgd_ema_update({}, {hyper.maximize}, scalars, grad, master, state[exp_avg]);
    case UpdateRule::lion:
      return lion_update({}, {hyper.maximize}, scalars, grad, master, state[exp_avg]);
    case UpdateRule::lamb:
      return lamb_update({}, {hyper.maximize}, scalars, trust_ratio, grad, master, state[exp_avg],
                         state[exp_avg_sq]);
  }
}

}  // namespace zeroproof::reference
