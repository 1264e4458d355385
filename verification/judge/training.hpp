#pragma once
// Some steps of one optimizer on all ranks of a case, from an undistributed state to an undistributed state: what stays
// when the world changes.

#include <functional>
#include <vector>

#include "common/base/digest.hpp"
#include "verification/judge/rank_comparison.hpp"

namespace zeroproof::verification {

/// Everything that survives a step, undistributed (FullState), with memory of its own.
struct Snapshot {
  std::vector<float> master, exp_avg, exp_avg_sq, max_exp_avg_sq, momentum_buffer;  // [padded_numel] or empty
  std::vector<std::uint64_t> tensor_steps;                                          // [num_tensors] or empty
  std::int64_t applied_steps = 0;
  LossScalerState scaler;

  Snapshot() = default;
  explicit Snapshot(const FullState& state);

  /// Views of this object.
  FullState full() const;

  /// The buffer of that name; nullptr for what is no state of a rule.
  std::vector<float>* buffer(BufferId id);

  /// Digest of everything by tensor and element, whatever the layout it was collected from; NaN canonical.
  Digest digest(const FlatLayout& layout) const;
};

/// One rank after one step.
struct RankOfStep {
  std::int64_t step;
  const CaseLayout& layout;
  DistributedOptimizer& optimizer;
  Communicator& world;
};

/// Runs steps first..last of a case's optimizer with ranks as threads of this process. `after` is called on every rank
/// after every step; it may be collective over `world`.
/// Errors: whatever a rank throws.
Snapshot train(const Experiment& experiment, GradCache& leaves, const CaseSpec& spec, const Snapshot& from,
               std::int64_t first, std::int64_t last, const RankComparison::MakeOptimizer& make_optimizer,
               const std::function<void(const RankOfStep&)>& after = {});

}  // namespace zeroproof::verification
