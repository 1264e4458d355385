#pragma once
// Layer-by-layer passes as a wrong schedule would run them. Only compiled into zp_cuda_faults.

#include <string_view>

#include "common/base/span.hpp"
#include "common/layout/flat_layout.hpp"
#include "cuda/runtime/step_plan.hpp"

namespace zeroproof::cuda {

/// The plan of a micro-step with the fault in it; as it was for faults that are not in the plan.
StepPlan wrong_plan(StepPlan plan, std::string_view fault);

/// The range next to a unit whose tensors have the same lengths, one after another: two layers of one shape.
/// The unit itself if there is none.
FlatRange twin_unit(const FlatLayout& layout, const FlatRange& unit);

/// Makes memory what it is after somebody gave it back.
void poison(const TensorView& view);

}  // namespace zeroproof::cuda
