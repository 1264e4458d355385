#pragma once
// The norms of the trust ratios (R6) as a pass that reads gradient, master and state, and adds
// integers (R10).

#include "cuda/device/kernels/update/trust_sums.cuh"
#include "cuda/device/step/step_gradient.cuh"
#include "cuda/device/step/step_grid.cuh"

namespace zeroproof::cuda::device {

/// The part of such a pass that does not depend on the form of the state. Gradient: ChangedGradient
/// or SummedGradient.
template <class Gradient>
struct TrustPass {
  StepMemory memory;
  Gradient gradient;
  StepScalars scalars{};
  std::int64_t begin = 0;  // of the piece
  Sum* words = nullptr;    // of its tensor; null: there is no piece
  TrustSums sums{};

  ZP_DEVICE bool starts() const { return Gradient::starts(memory); }

  ZP_DEVICE bool enter(const StepPiece& piece) {
    finish();
    if (piece.counted == 0 || !has_gradient(memory, piece.tensor)) return false;
    begin = piece.local_begin;
    scalars = memory.scalars[set_of(memory, piece)];
    gradient.enter(scalars, clip_coef_of(memory, piece));
    words = reinterpret_cast<Sum*>(memory.trust.sums) + piece.tensor * num_trust_words;
    sums.start();
    return true;
  }

  /// grad: as stored.
  ZP_DEVICE void add(float grad, float master, float exp_avg, float exp_avg_sq) {
    sums.add(master, lamb_change(scalars, gradient(grad), {master, exp_avg, exp_avg_sq, 0.0F}).u);
  }

  ZP_DEVICE void finish() {
    if (words != nullptr) sums.finish(words);
    words = nullptr;
  }
};

}  // namespace zeroproof::cuda::device
