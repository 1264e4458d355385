#pragma once
// What libraries of somebody else find in a program with a simulated device: zeroproof_kernel.h
// declares the same for them.

#include <cstdint>

#include "cuda/device/sim/simulator.hpp"

extern "C" {

/// Of the thread that runs now: 0 threadIdx, 1 blockIdx, 2 blockDim, 3 gridDim.
const zeroproof::cuda::sim::Index* zeroproof_sim_index(std::int32_t which);

/// __syncthreads() in that line.
void zeroproof_sim_barrier(std::int32_t line);

/// Enqueues thread(arguments) for every thread of a grid on a stream, which is what native_stream() gave. release is
/// called once, when nobody needs the arguments any more. Returns 0, or -1 if no device would start such a grid.
std::int32_t zeroproof_sim_enqueue(void* stream, std::int32_t grid, std::int32_t block,
                                   void (*thread)(void*), void (*release)(void*), void* arguments);
}
