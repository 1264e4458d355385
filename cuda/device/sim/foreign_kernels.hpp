#pragma once
// Interface for external libraries in a program with a simulated device: zeroproof_kernel.h
// declares the same functions for them.

#include <cstdint>

#include "cuda/device/sim/simulator.hpp"

extern "C" {

/// Of the running thread: 0 threadIdx, 1 blockIdx, 2 blockDim, 3 gridDim.
const zeroproof::cuda::sim::Index* zeroproof_sim_index(std::int32_t which);

/// __syncthreads() in this line.
void zeroproof_sim_barrier(std::int32_t line);

/// Enqueues thread(arguments) for every thread of a grid on a stream from native_stream(). release
/// is called once, when the arguments are no longer used. Returns 0, or -1 for a grid that no
/// device would start.
std::int32_t zeroproof_sim_enqueue(void* stream, std::int32_t grid, std::int32_t block,
                                   void (*thread)(void*), void (*release)(void*), void* arguments);
}
