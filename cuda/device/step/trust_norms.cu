// The trust ratios of a step (R6): norms of the pieces, and ratios from the norms of all ranks.

#include "cuda/device/step/trust_norms.cuh"

#include "cuda/device/step/step_passes.hpp"

namespace zeroproof::cuda::device {

static_assert(num_trust_words == 2 * num_norm_words);

namespace {

constexpr int exp_avg = static_cast<int>(StateSlot::exp_avg);
constexpr int exp_avg_sq = static_cast<int>(StateSlot::exp_avg_sq);

template <class Gradient>
struct TrustNormsPass : TrustPass<Gradient> {
  ZP_DEVICE void one(int i) {
    const StepMemory& memory = this->memory;
    const std::int64_t at = this->begin + i;
    this->add(memory.grad[at], memory.master[at], memory.slots.values[exp_avg][at],
              memory.slots.values[exp_avg_sq][at]);
  }

  ZP_DEVICE void pack(int i) {
    const StepMemory& memory = this->memory;
    const std::int64_t at = this->begin + i;
    const Pack<float> g = load_pack(memory.grad + at);
    const Pack<float> w = load_pack(memory.master + at);
    const Pack<float> m = load_pack(memory.slots.values[exp_avg] + at);
    const Pack<float> v = load_pack(memory.slots.values[exp_avg_sq] + at);
    ZP_UNROLL
    for (int k = 0; k < step_pack_numel; ++k) this->add(g.v[k], w.v[k], m.v[k], v.v[k]);
  }
};

template <class Gradient>
void run_norms(const StepMemory& memory, const Gradient& gradient) {
  run_pass(TrustNormsPass<Gradient>{{memory, gradient}}, memory,
           PackPhase()
               .with(memory.grad)
               .with(memory.master)
               .with(memory.slots.values[exp_avg])
               .with(memory.slots.values[exp_avg_sq]));
}

ZP_KERNEL ratios_kernel(StepMemory memory) {
  if (memory.state->halt != 0U || memory.found->skipped != 0U) return;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < memory.num_tensors; i += stride) {
    if (!has_gradient(memory, i)) {
      memory.trust.ratios[i] = 1.0F;
      continue;
    }
    std::uint64_t words[num_trust_words];
    for (int k = 0; k < num_trust_words; ++k) words[k] = memory.trust.sums[i * num_trust_words + k];
    const std::int64_t set = memory.tensor_steps != nullptr ? i : memory.tensor_groups[i];
    memory.trust.ratios[i] = trust_ratio_of(memory.scalars[set], words);
  }
}

}  // namespace

void enqueue_trust_norms(const StepMemory& memory, const StepRules& rules, bool fused) {
  fused ? run_norms(memory, SummedGradient::of(rules.hyper))
        : run_norms(memory, ChangedGradient::of(rules.hyper));
}

void enqueue_trust_ratios(const StepMemory& memory) {
  if (memory.num_tensors == 0) return;
  launch(ratios_kernel, grid_blocks(memory.num_tensors), block_threads, memory);
}

}  // namespace zeroproof::cuda::device
