#pragma once
// Interface for external libraries in a program with a simulated device: zeroproof_kernel.h
// declares the same functions for them.

#include <cstdint>

#include "cuda/device/sim/simulator.hpp"

extern "C" {

/// Of the running thread: 0 threadIdx, 1 blockIdx, 2 blockDim, 3 gridDim.
const zeroproof::cuda::sim::Index* zeroproof_sim_index(std::int32_t which);

/// __syncthreads_count(predicate) in this line.
std::int32_t zeroproof_sim_barrier(std::int32_t predicate, std::int32_t line);

/// sim::exchange().
std::uint64_t zeroproof_sim_exchange(std::uint32_t mask, std::uint64_t bits, std::uint32_t source,
                                     std::int32_t line);

/// An array of dynamic shared memory, all of them in a list.
typedef struct zeroproof_shared_array {
  unsigned char* (*data)(void);  ///< of the calling operating-system thread
  std::uint64_t capacity;        ///< bytes, of which a launch uses the first
  const struct zeroproof_shared_array* next;
} zeroproof_shared_array;

/// A launch of a kernel.
typedef struct zeroproof_sim_kernel {
  std::int32_t grid, block, shared_bytes;
  void (*thread)(void* arguments);   ///< one thread of it
  void (*release)(void* arguments);  ///< called once, when the arguments are no longer used
  void* arguments;
  unsigned char* (*shared)(void);  ///< an address in the thread-local memory of the library
  const zeroproof_shared_array* arrays;
} zeroproof_sim_kernel;

/// Enqueues a kernel on a stream from native_stream(). The library's thread-local variables are the
/// kernel's static shared memory while it runs, and keep their values for the host. Returns 0, or
/// -1 for a launch that no device would start.
std::int32_t zeroproof_sim_launch(void* stream, const zeroproof_sim_kernel* kernel);
}
