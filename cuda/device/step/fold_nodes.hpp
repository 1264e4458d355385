#pragma once
// Sums of gradient nodes and micro-batch gradients over pieces (R11), and bins (R11, binned), in
// device memory. Everything is enqueued on the current stream. Needs no CUDA.

#include <cstdint>

#include "common/base/span.hpp"
#include "common/layout/flat_layout.hpp"
#include "cuda/device/step/step_memory.hpp"
#include "cuda/host/fold_plan.hpp"

namespace zeroproof::cuda::device {

/// Pieces in device memory: [count], each of any length, in any order, disjoint.
struct DevicePieces {
  const Piece* pieces = nullptr;
  std::int64_t count = 0;
};

/// Values over such pieces. Element i of a piece is data[piece.local_begin + i] if the values are
/// packed, else data[piece.global_begin - base + i].
struct PlacedValues {
  const void* data = nullptr;
  DType dtype = DType::fp32;  ///< fp32, bf16 or fp16
  std::int64_t base = 0;
  bool packed = true;
};

/// sum = the operands, widened to fp32 and added in the order of the plan; with one operand: its
/// widened copy. Every operand is read once, and only sum is written. Elements between the pieces
/// are neither read nor written. operands: plan.num_nodes() of them. sum: fp32; it may be one of
/// the operands, nothing else overlaps.
void enqueue_fold(const DevicePieces& pieces, const host::FoldPlan& plan,
                  Span<const PlacedValues> operands, const PlacedValues& sum);

/// The fields of binned sums (contracts/binned_sum.hpp): hi, lo int32, top uint8, all with the same
/// placement.
struct PlacedBins {
  PlacedValues hi, lo, top;  ///< their dtype is ignored
};

/// Adds one micro-batch gradient to bins. leaf: fp32, bf16 or fp16, widened first.
void enqueue_binned_deposit(const DevicePieces& pieces, const PlacedValues& leaf,
                            const PlacedBins& bins);
/// Adds the bins of other gradients; from is not changed.
void enqueue_binned_merge(const DevicePieces& pieces, const PlacedBins& from,
                          const PlacedBins& into);
/// result = the sums as fp32, rounded once.
void enqueue_binned_finish(const DevicePieces& pieces, const PlacedBins& bins,
                           const PlacedValues& result);

/// Inputs and outputs (device pointers) of the measurement of G, with one clip group.
struct GradMeasurement {
  const StepState* state = nullptr;
  const StepInput* input = nullptr;
  StepFound* found = nullptr;
  const std::uint64_t* counted =
      nullptr;  ///< one bit per tensor, lowest first: counts in the norm; null: all do
  NormForm form = NormForm::chunk1024;
};

/// enqueue_fold, plus the work of enqueue_finite_norm (step_passes.hpp) for the elements of these
/// pieces: found_inf and the sums or amax are added to those found so far. After a halt, or where
/// R5 has no inv_scale, writes G and adds nothing. pieces: they start at chunk boundaries of their
/// tensors (R12) and have at most StepPiece::most_numel elements each.
void enqueue_measured_fold(const DevicePieces& pieces, const host::FoldPlan& plan,
                           Span<const PlacedValues> operands, const PlacedValues& sum,
                           const GradMeasurement& measurement);

}  // namespace zeroproof::cuda::device
