#pragma once
// Inputs of one rank's gradients of one step: the parameters of an optimizer, and the model.

#include <memory>
#include <vector>

#include "verification/cases/case_layout.hpp"
#include "verification/training/gradients/grad_cache.hpp"
#include "verification/training/gradients/grid_model.hpp"
#include "verification/training/gradients/provided_layers.hpp"

namespace zeroproof::verification {

/// Gradient computation of one rank of a case, over all steps.
class GradMaker {
 public:
  /// tp, cp: groups of the rank for joint computations; null for groups of one rank. All arguments
  /// must outlive this object.
  GradMaker(const Experiment& experiment, const CaseSpec& spec, const CaseLayout& layout,
            Communicator& world, Communicator* tp, Communicator* cp);

  const std::vector<std::int64_t>& own_micro_batches() const { return own_micro_batches_; }
  StateCollector& collector() { return collector_; }

  /// True if several ranks compute a gradient together: computing gradients is then collective.
  bool together() const { return grid_model_ != nullptr; }

 private:
  friend class StepGrads;

  const CaseSpec& spec_;
  const CaseLayout::Local& local_;
  const TensorBlocks blocks_;  // of this rank, if parameters have scales
  StateCollector collector_;
  const std::vector<FlatRange> units_;  // empty for recorded gradients
  const std::vector<int> visits_;
  const std::vector<std::int64_t> own_micro_batches_;
  std::unique_ptr<GridModel> grid_model_;
};

class StepGrads {
 public:
  /// Reads the current parameters of `optimizer`. shared: use its gradients instead of computing
  /// others; its parameters must be the same. Collective over the ranks of the case.
  StepGrads(GradMaker& maker, GradCache& cache, DistributedOptimizer& optimizer, std::int64_t step,
            int log2_loss_scale, const StepGrads* shared = nullptr);

  GradProvider& provider() const { return *provider_; }

  /// The model to be run layer by layer, or null for whole gradients.
  ProvidedLayers* layers() const { return layers_.get(); }

 private:
  GuardedBuffer gathered_;  // stage 3: all parameters, gathered by the harness
  GuardedBuffer read_;      // decoded 8-bit parameters
  std::unique_ptr<GradProvider> own_;
  GradProvider* provider_;
  std::unique_ptr<ProvidedLayers> layers_;
};

/// Sets the members of an optimizer's setup that depend on the parallel configuration of a case:
/// layout, stage, order, sum, process groups. `setup` keeps pointers to both.
void place_setup(OptimizerSetup& setup, const CaseSpec& spec, const CaseLayout& layout,
                 int world_rank);

}  // namespace zeroproof::verification
