// The norms of the trust ratios (R6) of state that is not fp32 (R25).

#include "cuda/device/step/stored_master.cuh"
#include "cuda/device/step/trust_norms.cuh"

namespace zeroproof::cuda::device {

namespace {

template <class Gradient, class Master>
struct StoredTrustNorms : TrustPass<Gradient> {
  StoredMemory stored;
  Master master;

  ZP_DEVICE void block(const BlockPart& block, const LaneElements& at) {
    const Pack<float> g = load_values(this->memory.grad, at);
    const Pack<float> w = master.load(at);
    const Pack<float> m = read_stored(stored.buffers[0], at, block.scale);
    const Pack<float> v = read_stored(stored.buffers[1], at, block.scale);
    ZP_UNROLL
    for (int k = 0; k < lane_numel; ++k)
      if (k < at.count) this->add(g.v[k], w.v[k], m.v[k], v.v[k]);
  }
};

template <class Gradient, class Master>
void run_with(const StepMemory& memory, const StoredMemory& stored, const Gradient& gradient,
              const Master& master) {
  run_stored_pass(StoredTrustNorms<Gradient, Master>{{memory, gradient}, stored, master},
                  with_stored(PackPhase().with(memory.grad), stored));
}

template <class Gradient>
void run_norms(const StepMemory& memory, const StoredMemory& stored, const Gradient& gradient) {
  if (stored.master_is_bf16) {
    using Master = Bf16Master<ParamCast<ParamKind::bf16>>;
    return run_with(memory, stored, gradient,
                    Master{static_cast<std::uint16_t*>(stored.master), {}});
  }
  using Master = Fp32Master<ParamCast<ParamKind::none>>;
  run_with(memory, stored, gradient, Master{static_cast<float*>(stored.master), {}});
}

}  // namespace

void enqueue_stored_trust_norms(const StepMemory& memory, const StoredMemory& stored,
                                const StepRules& rules, bool fused) {
  fused ? run_norms(memory, stored, SummedGradient::of(rules.hyper))
        : run_norms(memory, stored, ChangedGradient::of(rules.hyper));
}

}  // namespace zeroproof::cuda::device
