// Phase update for state that is not fp32 (R25), with a gradient that earlier phases changed in
// place.

#include "cuda/device/step/stored_update.cuh"

namespace zeroproof::cuda::device {

void enqueue_stored_update(const StepMemory& memory, const StoredMemory& stored,
                           const StepRules& rules) {
  run_stored_update<false>(memory, stored, rules, ChangedGradient::of(rules.hyper));
}

}  // namespace zeroproof::cuda::device
