#pragma once
// What everything in a gradient reduction works with: values where they lie, and sums over them block by block.

#include <cstdint>
#include <functional>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "cuda/exchange/grad_memory.hpp"
#include "cuda/host/fold_plan.hpp"
#include "cuda/host/piece_loop.hpp"
#include "cuda/phase_ops.hpp"

namespace zeroproof::cuda {

/// The values of one node or leaf over a bucket or over a rank's packed part of it, in somebody's memory. Flat values
/// start at a global index and are addressed by it, packed ones by the local index of a piece.
class NodeValues {
 public:
  NodeValues() = default;

  static NodeValues flat(const TensorView& view, std::int64_t base) { return {view, base}; }
  static NodeValues packed(const TensorView& view) { return {view, packed_base}; }

  const TensorView& view() const { return view_; }
  std::int64_t base() const { return base_; }
  bool exists() const { return view_.data != nullptr; }

  /// Where element 0 of the model would be: equal for flat values in the same place.
  std::uintptr_t origin() const {
    return reinterpret_cast<std::uintptr_t>(view_.data) -
           static_cast<std::uintptr_t>(base_ * num_bytes(view_.dtype));
  }

  std::int64_t index(const Piece& piece) const {
    return base_ == packed_base ? piece.local_begin : piece.global_begin - base_;
  }

  /// The elements of a piece; T is the type of the view's dtype.
  template <class T>
  Span<T> part(const Piece& piece) const {
    return {static_cast<T*>(view_.data) + index(piece), static_cast<std::size_t>(piece.numel)};
  }
  Span<std::byte> bytes(const Piece& piece) const {
    const std::int64_t width = num_bytes(view_.dtype);
    return {static_cast<std::byte*>(view_.data) + index(piece) * width,
            static_cast<std::size_t>(piece.numel * width)};
  }
  host::GradStretch operand(const Piece& piece) const {
    return {static_cast<const std::byte*>(view_.data) + index(piece) * num_bytes(view_.dtype), view_.dtype};
  }

 private:
  static constexpr std::int64_t packed_base = -1;
  NodeValues(const TensorView& view, std::int64_t base) : view_(view), base_(base) {}

  TensorView view_;
  std::int64_t base_ = packed_base;
};

/// One sum. The plan must outlive it; sum is fp32 and may be one of the operands.
struct FoldJob {
  const host::FoldPlan* plan = nullptr;
  std::vector<NodeValues> operands;
  NodeValues sum;
};

/// Sees every element of a sum once, on any thread. Stretches start at chunk boundaries of tensors.
struct SeeSum {
  std::function<void(const Exec&, Span<const float> sum)> look = {};  ///< a stretch while it is in the cache
  std::function<FusedFoldFn> fold = {};  ///< fused_fold and the look in one pass; may be empty

  explicit operator bool() const { return look != nullptr; }
};

struct ReduceTools {
  const OptimizerSetup& setup;
  const PhaseOps& ops;
  GradMemory& memory;
  bool streams = false;  ///< G of this rank is too large to be found in the caches again

  /// target = the values of an operand, widened to fp32.
  void widen(const Exec& exec, const host::GradStretch& from, Span<float> target) const;

  /// The sum of one block, all of a piece.
  void fold(const Exec& exec, const host::FoldPlan& plan, Span<const NodeValues> operands, const Piece& block,
            Span<float> sum) const;

  /// In every block all jobs, one after another: a job may write what an earlier one reads. see: of the last job's sum.
  void run(const host::PieceLoop& loop, Span<const FoldJob> jobs, const SeeSum& see = {}) const;

  /// target = the bits of a leaf, or its values if target is fp32. Both flat; nothing is done if the leaf lies there.
  void put_leaf(const host::PieceLoop& loop, const NodeValues& leaf, const NodeValues& target) const;

  /// With guards, makes values NaN that nobody is to read again.
  void forget(const host::PieceLoop& loop, const NodeValues& values) const;
};

}  // namespace zeroproof::cuda
