#pragma once
// Kernels that do not exist in production. Enqueued on the current stream.

#include <cstdint>

#include "cuda/device/step/step_memory.hpp"

namespace zeroproof::verification {

/// flag = flag == 1.
void enqueue_equals_one(std::uint64_t* flag);

/// Decrements the count if the previous step was skipped. before: whether it was; afterwards,
/// whether this step was.
void enqueue_count_behind(const cuda::device::StepMemory& memory, std::uint32_t* before);

}  // namespace zeroproof::verification
