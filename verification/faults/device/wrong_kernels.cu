#include "verification/faults/device/wrong_kernels.hpp"

#include "cuda/device/runtime/launch.hpp"
#include "cuda/device/runtime/runtime.hpp"

namespace zeroproof::verification {
namespace {

using namespace cuda::device;

ZP_KERNEL equals_one_kernel(std::uint64_t* flag) {
  if (threadIdx.x == 0) *flag = *flag == 1U ? 1U : 0U;
}

ZP_KERNEL count_behind_kernel(StepState* state, const StepFound* found, std::uint32_t* before) {
  if (threadIdx.x != 0) return;
  if (*before != 0U && found->skipped == 0U) --state->applied_steps;
  *before = found->skipped;
}

}  // namespace

void enqueue_equals_one(std::uint64_t* flag) { launch(equals_one_kernel, 1, block_threads, flag); }

void enqueue_count_behind(const StepMemory& memory, std::uint32_t* before) {
  launch(count_behind_kernel, 1, block_threads, memory.state, memory.found, before);
}

}  // namespace zeroproof::verification
