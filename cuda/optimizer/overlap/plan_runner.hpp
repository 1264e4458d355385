#pragma once
// Interface of plan runners.

#include <functional>

#include "cuda/optimizer/overlap/step_plan.hpp"

namespace zeroproof::cuda {

/// Body of an operation; called once for every operation, with those of one stream never at the
/// same time.
using PlanBody = std::function<void(const PlanOp&)>;

class PlanRunner {
 public:
  virtual ~PlanRunner() = default;

  /// Runs every operation and returns when all have ended. The first exception of an operation ends the run,
  /// on both streams, and is rethrown. Errors: internal if a wait can never be satisfied.
  virtual void run(const StepPlan& plan, const PlanBody& body) = 0;
};

}  // namespace zeroproof::cuda
