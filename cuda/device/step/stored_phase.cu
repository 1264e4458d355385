// Phase update for state that is not fp32 (R25), with a gradient that earlier phases changed in
// place.

#include "cuda/device/step/stored_update.cuh"

namespace zeroproof::cuda::device {

namespace {

struct ChangedGradient {
  std::uint32_t sign;

  ZP_DEVICE static bool starts(const StepMemory& memory) { return memory.state->halt == 0U; }
  ZP_DEVICE void enter(const StepScalars& /*scalars*/, float /*clip_coef*/) {}
  ZP_DEVICE float operator()(float g) const { return flip_sign(g, sign); }
};

}  // namespace

void enqueue_stored_update(const StepMemory& memory, const StoredMemory& stored,
                           const StepRules& rules) {
  run_stored_update<false>(memory, stored, rules, ChangedGradient{sign_mask(rules.hyper)});
}

}  // namespace zeroproof::cuda::device
