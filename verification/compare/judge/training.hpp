#pragma once
// Some steps of one optimizer on all ranks of a case, from an undistributed state to an
// undistributed state, so that the world can change in between.

#include <functional>

#include "verification/compare/judge/rank_comparison.hpp"
#include "verification/compare/judge/snapshot.hpp"

namespace zeroproof::verification {

/// One rank after one step.
struct RankOfStep {
  std::int64_t step;
  const CaseLayout& layout;
  DistributedOptimizer& optimizer;
  Communicator& world;
};

/// Runs steps first..last of a case's optimizer with ranks as threads of this process. `after` is
/// called on every rank after every step; it may be collective over `world`.
/// Errors: those of the ranks.
Snapshot train(const Experiment& experiment, GradCache& leaves, const CaseSpec& spec,
               const Snapshot& from, std::int64_t first, std::int64_t last,
               const RankComparison::MakeOptimizer& make_optimizer,
               const std::function<void(const RankOfStep&)>& after = {});

}  // namespace zeroproof::verification
