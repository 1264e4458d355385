#pragma once
// Computes the scalars of a step for every group or tensor with the threads of one block (R5, R20).

#include "cuda/device/kernels/update/step_scalars.cuh"
#include "cuda/device/runtime/launch.hpp"
#include "cuda/device/step/scalar_digest.cuh"
#include "cuda/device/step/step_memory.hpp"

namespace zeroproof::cuda::device {

using DigestSum = unsigned long long;  // the type that 64-bit atomics take

/// The number of the step, and whether it can have scalars.
ZP_DEVICE inline bool start_scalars(const StepMemory& memory) {
  StepState& state = *memory.state;
  const auto t = static_cast<std::int64_t>(state.applied_steps + 1);
  memory.found->t = static_cast<std::uint64_t>(t);
  if (t < memory.input->first_row_t || t - memory.input->first_row_t >= memory.input->num_rows)
    state.halt |= halt_schedule_left;
  if (!step_in_range(t, state.scaler.log2_scale, memory.input->divisor))
    state.halt |= halt_scalars_refused;
  return state.halt == 0U;
}

/// Computes the scalars of this thread's sets; returns their contribution to the digest. A tensor
/// never has more applied updates than the run, so its own t is in range as well.
ZP_DEVICE inline DigestSum make_scalars(const StepMemory& memory, ScalarSettings settings) {
  const int log2_scale = memory.state->scaler.log2_scale;
  const std::int64_t divisor = memory.input->divisor;
  const auto run_t = static_cast<std::int64_t>(memory.state->applied_steps + 1);
  const ScheduleRow* rows =
      memory.schedule + (run_t - memory.input->first_row_t) * memory.num_groups;
  DigestSum digest = 0;
  for (std::int64_t set = threadIdx.x; set < memory.num_sets; set += blockDim.x) {
    const bool own_t = memory.tensor_steps != nullptr;
    const ScheduleRow& row = rows[own_t ? memory.tensor_groups[set] : set];
    settings.lr = row.lr;
    settings.weight_decay = row.weight_decay;
    const std::int64_t t = own_t ? static_cast<std::int64_t>(memory.tensor_steps[set] + 1) : run_t;
    const StepScalars scalars = step_scalars_of(settings, t, log2_scale, divisor);
    memory.scalars[set] = scalars;
    digest += digest_of_set(scalars, set);
  }
  return digest;
}

/// Runs both, and the digest, with all threads of a block; returns whether there are scalars now.
/// After a halt it does nothing.
ZP_DEVICE inline bool make_scalar_sets(const StepMemory& memory, const ScalarSettings& settings) {
  ZP_SHARED_ARRAY(std::uint32_t, has_row, 1);
  ZP_SHARED_ARRAY(DigestSum, digest, 1);
  if (threadIdx.x == 0) {
    has_row[0] = memory.state->halt == 0U && start_scalars(memory) ? 1U : 0U;
    digest[0] = 0;
  }
  __syncthreads();
  if (has_row[0] == 0U) return false;
  const DigestSum own = make_scalars(memory, settings);
  if (own != 0) atomicAdd(&digest[0], own);
  __syncthreads();
  if (threadIdx.x == 0) {
    memory.found->digest = digest[0];
    memory.found->not_digest = ~static_cast<std::uint64_t>(digest[0]);
  }
  return true;
}

}  // namespace zeroproof::cuda::device
