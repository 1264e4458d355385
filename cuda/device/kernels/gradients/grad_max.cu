#include <algorithm>

#include "cuda/device/kernels/base/device_value.hpp"
#include "cuda/device/kernels/base/elementwise.cuh"
#include "cuda/device/operations.hpp"

namespace zeroproof::cuda::device {

namespace {

/// Largest magnitude as an integer: reduced per thread, then per block in shared memory, then once
/// per block into amax.
struct RaiseMax {
  static constexpr int pack_numel = 4;
  const float* grad;  // [numel]
  unsigned* amax;     // one word for the whole launch
  unsigned* block_max = nullptr;
  unsigned largest = 0;

  ZP_DEVICE void start() {
    ZP_SHARED_ARRAY(unsigned, shared_max, 1);
    if (threadIdx.x == 0) shared_max[0] = 0;
    __syncthreads();
    block_max = shared_max;
  }

  ZP_DEVICE void raise(float g) {
    unsigned magnitude = bits_of(g) & 0x7FFFFFFFU;
    if (magnitude > 0x7F800000U) magnitude = 0x7FFFFFFFU;
    largest = magnitude > largest ? magnitude : largest;
  }

  ZP_DEVICE void one(std::int64_t i) { raise(grad[i]); }

  ZP_DEVICE void pack(std::int64_t i) {
    const Pack<float> g = load_pack(grad + i);
    ZP_UNROLL
    for (int k = 0; k < pack_numel; ++k) raise(g.v[k]);
  }

  ZP_DEVICE void finish() {
    if (largest != 0U) atomicMax(block_max, largest);
    __syncthreads();
    if (threadIdx.x == 0 && *block_max != 0U) atomicMax(amax, *block_max);
  }
};

}  // namespace

void grad_max_accumulate(const Exec&, Span<const float> grad, std::uint32_t& amax) {
  if (grad.empty()) return;
  const DeviceValue<unsigned> word(amax);
  const RaiseMax operation{grad.data(), word.get()};
  run_elementwise(operation, numel(grad), operation.grad);
  amax = word.fetch();
}

}  // namespace zeroproof::cuda::device
