#pragma once

#include <vector>

#include "reference/dense_optimizer.hpp"
#include "verification/leaf_cache.hpp"
#include "verification/rank_pair.hpp"
#include "verification/run_report.hpp"

namespace zeroproof::verification {

/// The settings of an experiment without ranks.
reference::DenseSetup dense_setup(const Experiment& experiment);

/// What a step of the undistributed optimizer has to know of its micro-batches.
reference::MicroBatchFacts facts_of(const Experiment& experiment, std::int64_t step);

/// The undistributed optimizer on its way through the steps, with its trace.
class Truth {
 public:
  Truth(const Experiment& experiment, LeafCache& leaves);

  void step(std::int64_t number);

  const reference::DenseOptimizer& optimizer() const { return optimizer_; }

  /// The trace so far, its hash included.
  TrainingTrace trace() const;

 private:
  void record(std::int64_t number, int scale, const std::vector<double>& losses);

  const Experiment& experiment_;
  LeafCache& leaves_;
  reference::DenseOptimizer optimizer_;
  TrajectoryHash hash_;
  TrainingTrace trace_;
};

}  // namespace zeroproof::verification
