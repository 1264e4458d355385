#pragma once
// Plans on two CUDA streams, whose operations only look at who else touches their buffers.

#include <cstdint>
#include <vector>

#include "cuda/runtime/step_plan.hpp"

namespace zeroproof::device_test {

/// Enqueues every operation in the order of the plan, as cuda/runtime/worst_case_streams.hpp describes it for a device,
/// and waits for the end. In place of its real work an operation stays `cycles` clock cycles on its buffers: the
/// contents it needs have to be those that the order of the plan gives, before and afterwards, and what it changes has
/// to be its own meanwhile. Any two operations on one buffer, one of them writing, that run side by side or in the
/// wrong order are therefore seen if the first of them is slow enough.
///
/// cycles: [ops]. Returns [ops]: whether an operation saw something else than it expected. Throws what CUDA reports.
std::vector<bool> disturbed_on_streams(const cuda::StepPlan& plan, const std::vector<std::int64_t>& cycles);

}  // namespace zeroproof::device_test
