#pragma once
// What one rank's gradients of one step are made from: the parameters an optimizer holds, and the model behind them.

#include <memory>
#include <vector>

#include "verification/cases/case_layout.hpp"
#include "verification/training/gradients/grad_cache.hpp"
#include "verification/training/gradients/grid_model.hpp"
#include "verification/training/gradients/provided_layers.hpp"

namespace zeroproof::verification {

/// One rank of a case, as far as its gradients are concerned. Lives over all steps.
class GradMaker {
 public:
  /// tp, cp: groups of the rank for what several ranks compute together; null where there is one. Everything must
  /// outlive this object.
  GradMaker(const Experiment& experiment, const CaseSpec& spec, const CaseLayout& layout,
            Communicator& world, Communicator* tp, Communicator* cp);

  const std::vector<std::int64_t>& own_micro_batches() const { return own_micro_batches_; }
  StateCollector& collector() { return collector_; }

  /// True if several ranks compute a leaf together: making leaves is then collective.
  bool together() const { return grid_model_ != nullptr; }

 private:
  friend class StepGrads;

  const CaseSpec& spec_;
  const CaseLayout::Local& local_;
  const TensorBlocks blocks_;  // of this rank, if parameters have scales
  StateCollector collector_;
  const std::vector<FlatRange> units_;  // empty: gradients that were recorded whole
  const std::vector<int> visits_;
  const std::vector<std::int64_t> own_micro_batches_;
  std::unique_ptr<GridModel> grid_model_;
};

class StepGrads {
 public:
  /// Reads the parameters of `optimizer` as they are now. shared: use its leaves instead of making others; its
  /// parameters must be the same. Collective over the ranks of the case.
  StepGrads(GradMaker& maker, GradCache& cache, DistributedOptimizer& optimizer, std::int64_t step,
            int log2_loss_scale, const StepGrads* shared = nullptr);

  GradProvider& provider() const { return *provider_; }

  /// The model to be run layer by layer, or null for whole leaves.
  ProvidedLayers* layers() const { return layers_.get(); }

 private:
  GuardedBuffer gathered_;  // stage 3: all parameters, gathered by the harness
  GuardedBuffer read_;      // what the model reads of 8-bit parameters
  std::unique_ptr<GradProvider> own_;
  GradProvider* provider_;
  std::unique_ptr<ProvidedLayers> layers_;
};

/// Sets of an optimizer's setup what a case says about where it runs: layout, stage, order, sum, groups of ranks.
/// `setup` keeps pointers to both.
void place_setup(OptimizerSetup& setup, const CaseSpec& spec, const CaseLayout& layout,
                 int world_rank);

}  // namespace zeroproof::verification
