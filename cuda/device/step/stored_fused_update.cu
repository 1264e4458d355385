// All work after the norm in one pass, for state that is not fp32 (R25): an AdamW step with moments
// in e4m3 and fp16, a bf16 master and bf16 parameters moves 16 bytes per element, and 16 per block.

#include "cuda/device/step/stored_update.cuh"

namespace zeroproof::cuda::device {

namespace {

struct SummedGradient {
  GradientChain chain;

  ZP_DEVICE static bool starts(const StepMemory& memory) {
    return memory.state->halt == 0U && memory.found->skipped == 0U;
  }
  ZP_DEVICE void enter(const StepScalars& scalars, float clip_coef) {
    chain.inv_scale = scalars.inv_scale;
    chain.clip_coef = clip_coef;
  }
  ZP_DEVICE float operator()(float sum) const { return chain(sum); }
};

}  // namespace

void enqueue_stored_fused_update(const StepMemory& memory, const StoredMemory& stored,
                                 const StepRules& rules) {
  const GradientChain chain{1.0F, 1.0F, clip_limit(rules.hyper), sign_mask(rules.hyper)};
  run_stored_update<true>(memory, stored, rules, SummedGradient{chain});
}

}  // namespace zeroproof::cuda::device
