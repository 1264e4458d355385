#pragma once
// Executes a kernel on the processor, one CUDA thread after the other. A thread is a fiber: it gives way
// where it waits for others, and nowhere else. The threads of a block start in an order that changes from
// launch to launch, so that a result that depends on it does not stay the same.

#include <cstddef>
#include <cstdint>
#include <functional>

namespace zeroproof::cuda::sim {

struct Index {
  unsigned x = 0;
};

// Of the thread that runs now.
inline constinit thread_local Index threadIdx, blockIdx, blockDim, gridDim;

/// Errors: internal if no device would start such a grid.
void check_launch(int grid, int block);

/// Enqueues a kernel on the current stream; `thread` is run once per CUDA thread.
/// Errors: as check_launch, at once.
void enqueue_kernel(int grid, int block, std::function<void()> thread);

/// Runs body once per CUDA thread, block after block. block is a multiple of 32.
/// Throws Error(internal) if the threads of a block cannot go on (barriers that not all of them reach, a
/// shuffle without the whole warp) or wrote past a shared array.
void run(int grid, int block, const std::function<void()>& body);

/// Returns when every thread of the block has called this from the same line.
void wait_for_block(int line);

/// Gives bits to the warp and returns those of the lane `delta` above, or its own. Only the full mask is
/// known.
std::uint64_t exchange_down(unsigned mask, std::uint64_t bits, unsigned delta, int line);

/// The largest value of the warp, to every lane of it.
std::uint32_t largest_of_warp(unsigned mask, std::uint32_t value, int line);

/// The block's array that stands in this line: the same one in every source that reads the line. It starts as 0xFF
/// bytes, which are NaN as floats.
void* shared_memory(const char* file, int line, std::size_t num_bytes);

}  // namespace zeroproof::cuda::sim
