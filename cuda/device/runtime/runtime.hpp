#pragma once
// The device functions that implementations and steps need, besides launch() (launch.hpp) and
// device_info() (device.hpp). Needs no CUDA: cuda/device/runtime/cuda_*.cpp implement it with the
// CUDA runtime, cuda/device/sim on the processor.

#include <algorithm>
#include <cstdint>

#include "cuda/device/runtime/graph.hpp"
#include "cuda/device/runtime/memory.hpp"
#include "cuda/device/runtime/stream.hpp"
#include "cuda/device_calls.hpp"

namespace zeroproof::cuda::device {

/// Number of devices that this process may use, at least 1. Errors: unavailable if there are none.
int num_devices();

/// Selects device `local_rank` modulo num_devices() for this host thread and returns its number.
/// Streams, events and memory belong to the device of the thread that created them. local_rank >=
/// 0.
int choose_device(int local_rank);

int num_multiprocessors();

/// Counters of the calls of this host thread so far.
const DeviceCalls& device_calls();

/// Step named in later errors of this host thread, "in step 12"; negative: none. A persistent
/// device error may have occurred before the call that reports it.
void name_step(std::int64_t step);

inline constexpr int block_threads = 256;

/// Number of blocks for this many threads of work: at least 1, at most as many as fill the device.
/// Kernels stride over the rest, and no bit of a result depends on the number.
inline int grid_blocks(std::int64_t work_items) {
  constexpr std::int64_t blocks_per_multiprocessor = 8;  // 2048 threads, the most that fit
  const std::int64_t wanted = (work_items + block_threads - 1) / block_threads;
  return static_cast<int>(
      std::clamp<std::int64_t>(wanted, 1, blocks_per_multiprocessor * num_multiprocessors()));
}

}  // namespace zeroproof::cuda::device
