// All work after the norm in one pass, for state that is not fp32 (R25): an AdamW step with moments
// in e4m3 and fp16, a bf16 master and bf16 parameters moves 16 bytes per element, and 16 per block.

#include "cuda/device/step/stored_update.cuh"

namespace zeroproof::cuda::device {

void enqueue_stored_fused_update(const StepMemory& memory, const StoredMemory& stored,
                                 const StepRules& rules) {
  run_stored_update<true>(memory, stored, rules, SummedGradient::of(rules.hyper));
}

}  // namespace zeroproof::cuda::device
