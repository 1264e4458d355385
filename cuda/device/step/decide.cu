// Decisions between the passes of a step, stored where the passes read them.

#include "cuda/device/kernels/gradients/norm_finish.cuh"
#include "cuda/device/kernels/update/loss_scaler.cuh"
#include "cuda/device/kernels/update/step_scalars.cuh"
#include "cuda/device/runtime/launch.hpp"
#include "cuda/device/runtime/runtime.hpp"
#include "cuda/device/step/scalar_sets.cuh"
#include "cuda/device/step/step_passes.hpp"

namespace zeroproof::cuda::device {

namespace {

/// Settings of a run and requested parts, without host types.
struct Decision {
  ScalarSettings settings;  // lr and weight_decay come from the schedule
  LossScalerConfig scaler;
  double max_norm;  // 0: none; with clip groups, the limits are in device memory
  OnNonfinite on_nonfinite;
  NormForm form;
  std::uint32_t parts;
  bool compares_digests;

  ZP_DEVICE bool asks_for(std::uint32_t part) const { return (parts & part) != 0U; }
};

ZP_DEVICE double nan_norm() { return double_of(0x7FF8000000000000ULL); }

/// decide_scaler. Returns whether the step continues with its later parts.
ZP_DEVICE bool judge(const StepMemory& memory, const Decision& decision) {
  StepState& state = *memory.state;
  StepFound& found = *memory.found;
  if (decision.compares_digests && found.digest != ~found.not_digest) {
    state.halt |= halt_scalars_differ;
    return false;
  }
  const bool found_inf = found.found_inf != 0U;
  if (found_inf && decision.on_nonfinite == OnNonfinite::error) {
    state.halt |= halt_nonfinite;
    return false;
  }
  state.scaler = loss_scaler_after(decision.scaler, state.scaler, found_inf);
  found.skipped = found_inf && decision.on_nonfinite == OnNonfinite::skip ? 1U : 0U;
  if (found.skipped == 0U) return true;
  const float nan_coef = float_of(0x7FC00000U);
  found.grad_norm = nan_norm();
  found.clip_coef = nan_coef;
  const ClipGroupsFound& groups = memory.groups_found;
  if (groups.count == 1) return false;
  for (std::int64_t k = 0; k < groups.count; ++k) {
    groups.grad_norm[k] = nan_norm();
    groups.clip_coef[k] = nan_coef;
  }
  return false;
}

/// sums: [num_norm_words], summed over the ranks limb by limb; not read with the form inf. Left
/// normalised.
ZP_DEVICE double norm_of(std::uint64_t* sums, std::uint64_t amax, NormForm form) {
  if (form == NormForm::inf) return norm_of_largest(static_cast<std::uint32_t>(amax));
  if (sums[norm_nan_count] != 0 || sums[norm_inf_count] != 0)
    carry_limbs(sums);  // sum_of_limbs normalises otherwise
  return form == NormForm::one ? sum_of_limbs(sums) : norm_of_squares(sums);
}

/// decide_norm. sums: [num_norm_words]; with a single norm, its sums, left as found->sums must be at
/// the end; otherwise scratch.
ZP_DEVICE void make_norms(const StepMemory& memory, NormForm form, std::uint64_t* sums) {
  StepFound& found = *memory.found;
  const ClipGroupsFound& groups = memory.groups_found;
  if (groups.count == 1) {
    found.grad_norm = norm_of(sums, found.amax, form);
    return;
  }
  for (std::int64_t k = 0; k < groups.count; ++k) {
    std::uint64_t* const of_group = groups.sums + k * num_norm_words;
    for (int i = 0; i < num_norm_words; ++i) sums[i] = of_group[i];
    groups.largest[k] = static_cast<std::uint32_t>(groups.amax[k]);
    groups.grad_norm[k] = norm_of(sums, groups.amax[k], form);
    for (int i = 0; i < num_norm_words; ++i) of_group[i] = sums[i];
  }
  found.grad_norm = groups.grad_norm[0];
}

/// decide_clip. max_norm: of the one group, if there is only one.
ZP_DEVICE void make_coefficients(const StepMemory& memory, double max_norm) {
  StepFound& found = *memory.found;
  const ClipGroupsFound& groups = memory.groups_found;
  if (groups.count == 1) {
    found.clip_coef = clip_coef_of(found.grad_norm, max_norm);
    return;
  }
  for (std::int64_t k = 0; k < groups.count; ++k) {
    groups.clip_coef[k] = clip_coef_of(groups.grad_norm[k], groups.max_norm[k]);
  }
  found.clip_coef = groups.clip_coef[0];
}

/// One thread decides and stores in go_on whether the block continues: no other thread reads a halt
/// that may be changing.
ZP_KERNEL decide_kernel(StepMemory memory, Decision decision) {
  ZP_SHARED_ARRAY(std::uint32_t, go_on, 1);
  // One thread processes all of them; each global memory access would add its latency.
  ZP_SHARED_ARRAY(std::uint64_t, sums, num_norm_words);
  const bool holds_sum = decision.asks_for(decide_norm) && memory.groups_found.count == 1 &&
                         threadIdx.x < static_cast<unsigned>(num_norm_words);
  if (holds_sum) sums[threadIdx.x] = memory.found->sums[threadIdx.x];
  if (decision.asks_for(decide_scalars) && !make_scalar_sets(memory, decision.settings)) return;
  __syncthreads();
  if (threadIdx.x == 0) {
    StepFound& found = *memory.found;
    bool on = memory.state->halt == 0U;
    if (on) on = decision.asks_for(decide_scaler) ? judge(memory, decision) : found.skipped == 0U;
    if (on && decision.asks_for(decide_norm)) make_norms(memory, decision.form, sums);
    if (on && decision.asks_for(decide_clip)) make_coefficients(memory, decision.max_norm);
    if (on && decision.asks_for(decide_count)) memory.state->applied_steps = found.t;
    go_on[0] = on ? 1U : 0U;
  }
  __syncthreads();
  if (holds_sum && go_on[0] != 0U) memory.found->sums[threadIdx.x] = sums[threadIdx.x];
  if (go_on[0] == 0U || !decision.asks_for(decide_count) || memory.tensor_steps == nullptr) return;
  for (std::int64_t i = threadIdx.x; i < memory.num_tensors; i += blockDim.x) {
    memory.tensor_steps[i] += (memory.has_grad[i / 64] >> (i % 64)) & 1U;
  }
}

}  // namespace

void enqueue_decide(const StepMemory& memory, const StepRules& rules, std::uint32_t parts,
                    bool compares_digests) {
  const Decision decision{scalar_settings(rules.hyper),
                          rules.scaler,
                          rules.hyper.max_norm.value_or(0.0),
                          rules.on_nonfinite,
                          rules.hyper.norm,
                          parts,
                          compares_digests};
  launch(decide_kernel, 1, block_threads, memory, decision);
}

}  // namespace zeroproof::cuda::device
