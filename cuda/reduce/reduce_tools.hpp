#pragma once
// Shared tools of the gradient reduction: operands in place, and sums over them block by block.

#include <cstdint>
#include <vector>

#include "common/base/span.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "cuda/comm/exchange/comm_groups.hpp"
#include "cuda/comm/exchange/grad_memory.hpp"
#include "cuda/comm/memory/memory_space.hpp"
#include "cuda/host/base/piece_loop.hpp"
#include "cuda/host/fold_plan.hpp"
#include "cuda/kernel_table.hpp"
#include "cuda/reduce/fold_epilogue.hpp"

namespace zeroproof::cuda {

/// One sum. The plan must outlive it; sum is fp32 and may be one of the operands.
struct FoldJob {
  const host::FoldPlan* plan = nullptr;
  std::vector<NodeValues> operands;
  NodeValues sum;
};

struct ReduceTools {
  const OptimizerSetup& setup;
  const KernelTable& ops;
  GradMemory& memory;
  const CommGroups comm_groups = {};
  bool streams = false;  ///< G of this rank is larger than the caches

  const MemorySpace& space() const { return memory.space(); }

  /// target = the values of an operand, widened to fp32. On the host.
  void widen(const Exec& exec, const host::GradStretch& from, Span<float> target) const;

  /// The sum of one block, all of a piece. On the host.
  void fold(const Exec& exec, const host::FoldPlan& plan, Span<const NodeValues> operands,
            const Piece& block, Span<float> sum) const;

  /// In every block all jobs, one after another: a job may overwrite the operands of an earlier
  /// one. epilogue: of the last job's sum.
  void run(const host::PieceLoop& loop, Span<const FoldJob> jobs,
           const FoldEpilogue& epilogue = {}) const;

  /// target = the bits of a gradient, or its values if target is fp32. Both flat; no-op if the
  /// gradient is already there.
  void put_leaf(const host::PieceLoop& loop, const NodeValues& leaf,
                const NodeValues& target) const;

  /// With guards, makes values NaN that must not be read again.
  void forget(const host::PieceLoop& loop, const NodeValues& values) const;
};

/// Destination of G of a step.
struct GradTarget {
  Span<float> grad_sum;        ///< all of the model in stage 0, otherwise this rank's shard
  FoldEpilogue epilogue = {};  ///< computed of every element of grad_sum as it is written
  bool leaf_may_stay = false;  ///< a gradient that itself is G may stay in place
};

}  // namespace zeroproof::cuda
