#pragma once
// Placement of the waits of a plan.

#include "cuda/optimizer/overlap/step_plan.hpp"

namespace zeroproof::cuda {

/// Places the events of a plan that has none: whenever an operation uses a buffer used by an
/// operation of the other stream that was enqueued before it (one of them writing), and no earlier
/// wait orders the two, it waits for the latest such operation. No wait is redundant.
void place_events(StepPlan& plan);

}  // namespace zeroproof::cuda
