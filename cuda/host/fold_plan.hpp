#pragma once
// The additions of R11 over nodes that are present at the same time: planned once, run for every
// block.

#include <cstdint>
#include <vector>

#include "common/base/span.hpp"
#include "common/contracts/grad_sum.hpp"
#include "cuda/host/simd/kernels.hpp"

namespace zeroproof::cuda::host {

/// One sum in registers and caches instead of node by node: every operand is read once and only the
/// result is stored.
class FoldPlan {
 public:
  /// The tree of R11. nodes: in increasing first micro-batch. Nodes that form a larger one are
  /// added first; nodes that cannot be combined are added from last to first. Errors:
  /// invalid_argument if there is none, or they are in another order.
  explicit FoldPlan(const std::vector<TreeNode>& nodes);

  /// ((first + second) + third) + ...: the order of an accumulator, for sums that promise no bits (R11, native).
  static FoldPlan one_after_another(std::size_t operands);

  std::size_t num_nodes() const { return num_nodes_; }

  /// The additions over operands, num_nodes of them, for fused_fold. Both must outlive the result.
  Fold over(Span<const GradStretch> operands) const {
    return {additions_.data(), static_cast<std::int64_t>(additions_.size()), operands.data()};
  }

  /// Number of scratch buffers for run(), each as long as the sum.
  std::int64_t scratch_slots() const { return depth_ + 2; }

  /// Shapes   operands: num_nodes buffers of [numel of sum]; scratch: scratch_slots() * that. sum
  ///          may be the memory of one of the operands; nothing else overlaps.
  /// add      add(left, right, sum) in fp32; sum may be left or right.
  /// widen    widen(operand, target): an operand as fp32.
  template <class Add, class Widen>
  void run(const Add& add, const Widen& widen, Span<const GradStretch> operands,
           Span<float> scratch, Span<float> sum) const {
    const std::size_t count = sum.size();
    if (additions_.empty()) return widen(operands.front(), sum);
    const auto slot = [&](std::int64_t i) {
      return scratch.subspan(static_cast<std::size_t>(i) * count, count);
    };
    const auto value = [&](std::int64_t at, std::int64_t wide) -> Span<const float> {
      if (at >= 0) return slot(at);
      const GradStretch& operand = operands[-1 - at];
      if (operand.dtype == DType::fp32) return {static_cast<const float*>(operand.data), count};
      widen(operand, slot(wide));
      return slot(wide);
    };
    for (const FoldAddition& a : additions_) {
      add(value(a.left, depth_), value(a.right, depth_ + 1),
          &a == &additions_.back() ? sum : slot(a.to));
    }
  }

 private:
  FoldPlan() = default;

  std::size_t num_nodes_ = 0;
  std::int64_t depth_ = 0;  ///< partial sums in use at the same time
  std::vector<FoldAddition> additions_;
};

/// sum = the operands, added in the order of the plan, in one pass over memory.
///
/// Shapes   operands: num_nodes of the plan, each [numel of sum] fp32, bf16 or fp16. sum may be the
///          memory of one of them, unless it is streamed (stored bypassing the caches); nothing
///          else overlaps.
/// Errors   invalid_argument if the plan has another number of nodes.
void fused_fold(const Exec& exec, const FoldPlan& plan, Span<const GradStretch> operands,
                Span<float> sum, bool streamed);

}  // namespace zeroproof::cuda::host
