#pragma once
// The update of stored state (R25): R6 applied to the values of codes, in the registers of a warp.

#include "cuda/device/step/rule_state.cuh"
#include "cuda/device/step/step_gradient.cuh"
#include "cuda/device/step/stored_master.cuh"

namespace zeroproof::cuda::device {

/// Gradient: ChangedGradient or SummedGradient.
template <RuleForm form, class Gradient, class Master>
struct StoredUpdate {
  static constexpr int count = num_state_buffers(form);
  StepMemory memory;
  StoredMemory stored;
  Gradient gradient;
  Master master;
  RuleScalars<form> scalars{};

  ZP_DEVICE bool starts() const { return Gradient::starts(memory); }

  ZP_DEVICE bool enter(const StepPiece& piece) {
    if (!has_gradient(memory, piece.tensor)) return false;
    scalars = scalars_of<form>(memory, piece);
    gradient.enter(scalars, clip_coef_of(memory, piece));
    master.cast.enter(memory, piece);
    return true;
  }

  ZP_DEVICE void block(const BlockPart& block, const LaneElements& at) const {
    const Pack<float> g = load_values(memory.grad, at);
    Pack<float> w = master.load(at);
    Pack<float> first{}, second{}, third{};
    if (count > 0 && reads_state<form>(scalars))
      first = read_stored(stored.buffers[0], at, block.scale);
    if (count > 1) second = read_stored(stored.buffers[1], at, block.scale);
    if (count > 2) third = read_stored(stored.buffers[2], at, block.scale);
    ZP_UNROLL
    for (int k = 0; k < lane_numel; ++k) {
      const RuleValues next = rule_element<form>(scalars, gradient(g.v[k]),
                                                 {w.v[k], first.v[k], second.v[k], third.v[k]});
      w.v[k] = next.master;
      first.v[k] = next.first;
      second.v[k] = next.second;
      third.v[k] = next.third;
    }
    // One buffer after the other: every lane has read its scale before the warp computes the new
    // largest value.
    master.store(at, w);
    if (count > 0) store_block(stored, 0, block, at, first);
    if (count > 1) store_block(stored, 1, block, at, second);
    if (count > 2) store_block(stored, 2, block, at, third);
  }
};

/// Enqueues this update. casts: also computes parameters without scales, in the same pass.
template <bool casts, class Gradient>
void run_stored_update(const StepMemory& memory, const StoredMemory& stored, const StepRules& rules,
                       const Gradient& gradient) {
  visit_master<casts>(memory, stored, rules, [&](auto master) {
    visit_rule(rules.hyper, [&](auto tag) {
      constexpr RuleForm form = decltype(tag)::form;
      run_stored_pass(
          StoredUpdate<form, Gradient, decltype(master)>{memory, stored, gradient, master},
          master.phase(with_stored(PackPhase().with(memory.grad), stored)));
    });
  });
}

}  // namespace zeroproof::cuda::device
