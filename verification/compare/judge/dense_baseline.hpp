#pragma once

#include <vector>

#include "common/base/thread_pool.hpp"
#include "reference/dense_optimizer.hpp"
#include "verification/cases/run_report.hpp"
#include "verification/compare/judge/rank_comparison.hpp"
#include "verification/training/gradients/grad_cache.hpp"

namespace zeroproof::verification {

/// The settings of an experiment without ranks.
StepSettings dense_settings(const Experiment& experiment);

/// The properties of micro-batches that a step of the undistributed optimizer needs.
reference::MicroBatchFacts facts_of(const Experiment& experiment, std::int64_t step);

/// The parameters that the model reads: the optimizer's own, or those in 8 bits decoded into `decoded` (R24).
TensorView params_of_model(const Experiment& experiment, const reference::DenseOptimizer& optimizer,
                           GuardedBuffer& decoded);

/// The undistributed optimizer over the steps of a run, with its trace.
class DenseBaseline {
 public:
  /// thread_pool computes the gradients; null: separate threads, one per core. start: the first
  /// state; null: that of the experiment.
  DenseBaseline(const Experiment& experiment, GradCache& leaves, ThreadPool* thread_pool = nullptr,
                const FullState* start = nullptr);

  void step(std::int64_t number);

  const reference::DenseOptimizer& optimizer() const { return optimizer_; }

  /// The trace so far, its hash included.
  TrainingTrace trace() const;

 private:
  void record(std::int64_t number, int scale, const std::vector<double>& losses);

  const Experiment& experiment_;
  GradCache& leaves_;
  ThreadPool* thread_pool_;
  reference::DenseOptimizer optimizer_;
  TrajectoryHash hash_;
  TrainingTrace trace_;
};

}  // namespace zeroproof::verification
