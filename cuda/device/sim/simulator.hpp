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

/// Shared memory that the simulator does not manage, for kernels of other libraries.
struct ForeignShared {
  std::function<void()> begin = [] {};  ///< before each block
  std::function<void()> end = [] {};    ///< after it; may throw
};

/// Runs body once per CUDA thread, block after block. block is a multiple of 32.
/// Throws Error(internal) if the threads of a block deadlock (a barrier that not all of them reach,
/// a shuffle without all lanes of its mask) or wrote past a shared array.
void run(int grid, int block, const std::function<void()>& body, const ForeignShared& shared = {});

/// Returns when every thread of the block has called this from the same line: the number of them
/// that passed true.
unsigned wait_for_block(int line, bool counts = false);

/// Values of `source` in exchange() that are no lane.
constexpr unsigned every_lane = 32;  ///< a mask of the lanes whose bits are not 0
constexpr unsigned greatest = 33;    ///< the largest bits of all lanes
constexpr unsigned no_lane = 34;     ///< an error: the kernel named no lane that exists

/// Passes `bits` to the lanes of `mask` and returns those of lane `source`: all ones if the mask
/// does not name it. Returns when every lane of the mask has called this from the same line with
/// the same mask. A thread with an invalid mask or source does not return; run() throws.
std::uint64_t exchange(unsigned mask, std::uint64_t bits, unsigned source, int line);

/// Lane of the running thread in its warp.
unsigned lane();

/// The block's array that is declared in this line: the same one in every source that includes the
/// line. It starts as 0xFF bytes, which are NaN as floats.
void* shared_memory(const char* file, int line, std::size_t num_bytes);

}  // namespace zeroproof::cuda::sim
