#pragma once
// Executes a kernel on the processor, one CUDA thread after the other. A thread is a fiber: it
// switches to others only where it waits for them. The threads of a block start in an order that
// changes from launch to launch, so that a result that depends on the order changes too.

#include <cstddef>
#include <cstdint>
#include <functional>

namespace zeroproof::cuda::sim {

struct Index {
  unsigned x = 0;
};

// Of the running thread.
inline constinit thread_local Index threadIdx, blockIdx, blockDim, gridDim;

/// Errors: internal for a grid that no device would start.
void check_launch(int grid, int block);

/// Enqueues a kernel on the current stream; `thread` is run once per CUDA thread.
/// Errors: as check_launch, immediately.
void enqueue_kernel(int grid, int block, std::function<void()> thread);

/// Runs body once per CUDA thread, block after block. block is a multiple of 32.
/// Throws Error(internal) if the threads of a block deadlock (a barrier that not all of them reach,
/// a shuffle without the whole warp) or wrote past a shared array.
void run(int grid, int block, const std::function<void()>& body);

/// Returns when every thread of the block has called this from the same line.
void wait_for_block(int line);

/// Passes a value to the warp and returns that of the lane `delta` above, or its own if there is
/// none. Only the full mask is supported.
std::uint64_t exchange_down(unsigned mask, std::uint64_t bits, unsigned delta, int line);

/// Returns the largest value of the warp to every lane.
std::uint32_t largest_of_warp(unsigned mask, std::uint32_t value, int line);

/// The block's array that is declared in this line: the same one in every source that includes the
/// line. It starts as 0xFF bytes, which are NaN as floats.
void* shared_memory(const char* file, int line, std::size_t num_bytes);

}  // namespace zeroproof::cuda::sim
