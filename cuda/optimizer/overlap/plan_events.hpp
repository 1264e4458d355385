#pragma once
// Where a plan must wait.

#include "cuda/optimizer/overlap/step_plan.hpp"

namespace zeroproof::cuda {

/// Places the events of a plan that has none: whenever an operation touches a buffer that an operation of the
/// other stream, enqueued before it, has touched (one of them writing), and no earlier wait orders the two,
/// it waits for the latest such operation. No wait is redundant.
void place_events(StepPlan& plan);

}  // namespace zeroproof::cuda
