#pragma once
// The buffers of a rule and the operations of a pass on them: one element, or four at once.

#include <string>

#include "common/base/error.hpp"
#include "cuda/device/step/rule_element.cuh"
#include "cuda/device/step/step_grid.cuh"

namespace zeroproof::cuda::device {

/// [shard_numel] each; null beyond the number of buffers of the form.
struct RuleBuffers {
  float* master;
  float* first;
  float* second;
  float* third;
};

inline RuleBuffers rule_buffers(const StepMemory& memory, RuleForm form) {
  using enum StateSlot;
  const bool momentum = form == RuleForm::sgd_momentum || form == RuleForm::sgd_nesterov;
  const int count = num_state_buffers(form);
  return {memory.master, count < 1 ? nullptr : memory.slots[momentum ? momentum_buffer : exp_avg],
          count < 2 ? nullptr : memory.slots[exp_avg_sq],
          count < 3 ? nullptr : memory.slots[max_exp_avg_sq]};
}

inline PackPhase with_buffers(PackPhase phase, const RuleBuffers& buffers) {
  return phase.with(buffers.master).with(buffers.first).with(buffers.second).with(buffers.third);
}

/// The factors of a piece.
template <RuleForm form>
ZP_DEVICE RuleScalars<form> scalars_of(const StepMemory& memory, const StepPiece& piece) {
  const StepScalars& set = memory.scalars[set_of(memory, piece)];
  if constexpr (form == RuleForm::lamb) {
    return {set, memory.trust.ratios[piece.tensor]};
  } else {
    return set;
  }
}

/// An in-place update of elements. The scalars are those of the piece that was entered last.
template <RuleForm form>
struct RuleState {
  static constexpr int count = num_state_buffers(form);
  RuleBuffers buffers;
  RuleScalars<form> scalars{};

  /// Returns the new master. g: the gradient, with the sign of a descent.
  ZP_DEVICE float one(std::int64_t i, float g) const {
    const bool reads = reads_state<form>(scalars);
    RuleValues old{buffers.master[i], 0.0F, 0.0F, 0.0F};
    if (count > 0 && reads) old.first = buffers.first[i];
    if (count > 1) old.second = buffers.second[i];
    if (count > 2) old.third = buffers.third[i];
    const RuleValues next = rule_element<form>(scalars, g, old);
    buffers.master[i] = next.master;
    if (count > 0) buffers.first[i] = next.first;
    if (count > 1) buffers.second[i] = next.second;
    if (count > 2) buffers.third[i] = next.third;
    return next.master;
  }

  /// The same of elements [i, i + 4), aligned in every buffer.
  ZP_DEVICE Pack<float> pack(std::int64_t i, const Pack<float>& g) const {
    const bool reads = reads_state<form>(scalars);
    Pack<float> master = load_pack(buffers.master + i);
    Pack<float> first{}, second{}, third{};
    if (count > 0 && reads) first = load_pack(buffers.first + i);
    if (count > 1) second = load_pack(buffers.second + i);
    if (count > 2) third = load_pack(buffers.third + i);
    ZP_UNROLL
    for (int k = 0; k < step_pack_numel; ++k) {
      const RuleValues next =
          rule_element<form>(scalars, g.v[k], {master.v[k], first.v[k], second.v[k], third.v[k]});
      master.v[k] = next.master;
      first.v[k] = next.first;
      second.v[k] = next.second;
      third.v[k] = next.third;
    }
    store_pack(buffers.master + i, master);
    if (count > 0) store_pack(buffers.first + i, first);
    if (count > 1) store_pack(buffers.second + i, second);
    if (count > 2) store_pack(buffers.third + i, third);
    return master;
  }
};

template <RuleForm value>
struct RuleTag {
  static constexpr RuleForm form = value;
};

/// Calls f(RuleTag<form>{}) with the form of a run. Errors: invalid_argument if there is no such rule.
template <class F>
void visit_rule(const OptimizerHyper& hyper, F&& f) {
  switch (hyper.rule) {
    case UpdateRule::muon:  // of a tensor that is no matrix (R28)
    case UpdateRule::adamw:
      return hyper.amsgrad ? f(RuleTag<RuleForm::adamw_amsgrad>{}) : f(RuleTag<RuleForm::adamw>{});
    case UpdateRule::adam:
      return hyper.amsgrad ? f(RuleTag<RuleForm::adam_amsgrad>{}) : f(RuleTag<RuleForm::adam>{});
    case UpdateRule::sgd:
      if (hyper.momentum == 0.0) return f(RuleTag<RuleForm::sgd_plain>{});
      return hyper.nesterov ? f(RuleTag<RuleForm::sgd_nesterov>{})
                            : f(RuleTag<RuleForm::sgd_momentum>{});
    case UpdateRule::sgd_ema:
      return f(RuleTag<RuleForm::sgd_ema>{});
    case UpdateRule::lion:
      return f(RuleTag<RuleForm::lion>{});
    case UpdateRule::lamb:
      return f(RuleTag<RuleForm::lamb>{});
  }
  (void)traits_of(hyper.rule);  // throws the error
}

}  // namespace zeroproof::cuda::device
