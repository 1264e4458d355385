#pragma once
// Kernels that production does not have. Enqueued on the current stream.

#include <cstdint>

#include "cuda/device/step/step_memory.hpp"

namespace zeroproof::verification {

/// flag = flag == 1.
void enqueue_equals_one(std::uint64_t* flag);

/// Takes a step off the count where the step before this one was skipped. before: whether it was; then, of this one.
void enqueue_count_behind(const cuda::device::StepMemory& memory, std::uint32_t* before);

}  // namespace zeroproof::verification
