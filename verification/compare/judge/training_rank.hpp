#pragma once
// One rank of a training run without comparison: an optimizer, and the gradients of its parameters.

#include <functional>
#include <memory>
#include <vector>

#include "common/step/state_source.hpp"
#include "verification/compare/judge/mean_loss.hpp"
#include "verification/compare/judge/rank_comparison.hpp"
#include "verification/compare/judge/rank_groups.hpp"
#include "verification/compare/judge/snapshot.hpp"
#include "verification/training/gradients/step_grads.hpp"

namespace zeroproof::verification {

class TrainingRank {
 public:
  /// Two communicators over all ranks, so that messages of the optimizer are never mixed up with
  /// others; where ranks make one call at a time they may be the same one.
  struct Communicators {
    Communicator& optimizer;
    Communicator& harness;
  };

  /// All arguments must outlive this object. Collective. Errors: those of make_optimizer.
  TrainingRank(const Experiment& experiment, GradCache& leaves, const CaseSpec& spec,
               const CaseLayout& layout, const Communicators& comms,
               const RankComparison::MakeOptimizer& make_optimizer);

  /// Collective, once. Errors: DistributedOptimizer::load_state().
  void load(const Snapshot& from);
  void load(const StateSource& from) { optimizer_->load_state_from(from); }

  struct Outcome {
    bool skipped = false;
    std::vector<MicroBatchLoss> losses;  ///< of the micro-batches this rank has computed
    double gradients_s = 0, optimizer_s = 0;
  };
  /// Gradients are computed before the optimizer reads them; `between` is called in between.
  /// Collective.
  Outcome step(std::int64_t number, StepObserver* observer = nullptr,
               const std::function<void()>& between = {});

  /// Complete on rank 0. Collective.
  Snapshot collect();

  DistributedOptimizer& optimizer() { return *optimizer_; }
  const OptimizerSetup& setup() const { return setup_; }
  StateCollector& collector() { return maker_.collector(); }

 private:
  const Experiment& experiment_;
  GradCache& leaves_;
  const CaseLayout& layout_;
  const int tp_rank_;
  RankGroups optimizer_groups_, harness_groups_;
  GradMaker maker_;
  OptimizerSetup setup_;
  std::unique_ptr<DistributedOptimizer> optimizer_;
};

}  // namespace zeroproof::verification
