#pragma once
// The last sum of a step's gradients, looked at while it is written: what finite_norm would read it again for. Enqueued
// on the current stream. Needs no CUDA.

#include "cuda/device/step/fold_nodes.hpp"
#include "cuda/device/step/step_memory.hpp"

namespace zeroproof::cuda::device {

/// What G is looked at with where there is one clip group, and where what is found goes: device pointers.
struct GradLook {
  const StepState* state = nullptr;
  const StepInput* input = nullptr;
  StepFound* found = nullptr;
  const std::uint64_t* counted =
      nullptr;  ///< one bit per tensor, lowest first: counts in the norm; null: all do
  NormForm form = NormForm::chunk1024;
};

/// enqueue_fold, and for the elements of these pieces what enqueue_finite_norm does (step_passes.hpp): found_inf and
/// the sums or amax are added to what is found. After a halt, or where R5 has no inv_scale, G is written and nothing
/// found. pieces: they start at chunk boundaries of their tensors (R12), StepPiece::most_numel elements each at most.
void enqueue_fold_look(const DevicePieces& pieces, const host::FoldPlan& plan,
                       Span<const PlacedValues> operands, const PlacedValues& sum, const GradLook& look);

}  // namespace zeroproof::cuda::device
