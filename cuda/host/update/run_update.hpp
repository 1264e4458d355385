#pragma once

#include "common/contracts/lamb.hpp"
#include "cuda/host/base/parallel_blocks.hpp"
#include "cuda/host/simd/kernels.hpp"

namespace zeroproof::cuda::host {

inline GradStretch from_element(const GradStretch& at, std::int64_t begin) {
  return {static_cast<const std::byte*>(at.data) + begin * num_bytes(at.dtype), at.dtype};
}

/// The buffers from element `begin` on; missing ones stay null.
inline UpdateBuffers from_element(const UpdateBuffers& at, std::int64_t begin) {
  UpdateBuffers from = at;
  if (from.grad != nullptr) from.grad += begin;
  if (from.master != nullptr) from.master += begin;
  for (float*& buffer : from.slots) {
    if (buffer != nullptr) buffer += begin;
  }
  return from;
}

/// The update phase of one rule: a gradient that is already unscaled and clipped.
inline void run_update(const Exec& exec, const UpdateForm& form, bool maximize,
                       const StepScalars& scalars, const UpdateBuffers& buffers,
                       std::int64_t numel) {
  const SimdKernels& kernels = simd_kernels(exec.isa);
  GradientChain chain;
  if (maximize) chain.sign_flip = 0x80000000U;
  parallel_blocks(exec, numel, [&](std::int64_t begin, std::int64_t end) {
    kernels.update(form, chain, scalars, from_element(buffers, begin), end - begin);
  });
}

/// The same with bf16 parameters that are their own master (R25), a tile in fp32 at a time.
void run_bf16_update(const Exec& exec, const UpdateForm& form, bool maximize,
                     const StepScalars& scalars, Span<const bf16> grad, Span<bf16> master,
                     const PerSlot<float*>& slots);

/// Both norms of lamb (lamb.cpp), with a gradient that still goes through the chain.
void run_lamb_norms(const Exec& exec, const GradientChain& chain, const StepScalars& scalars,
                    const GradStretch& grad, Span<const float> master, Span<const float> exp_avg,
                    Span<const float> exp_avg_sq, TrustNorms& norms);

}  // namespace zeroproof::cuda::host
