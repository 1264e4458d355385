#pragma once
// All that implementations and steps need of a device, besides launch() (launch.hpp) and device_info() (device.hpp). It needs no
// CUDA: cuda/device/cuda_*.cpp answer with the CUDA runtime, cuda/device/sim with the processor.

#include <algorithm>
#include <cstdint>

#include "cuda/device/runtime/graph.hpp"
#include "cuda/device/runtime/memory.hpp"
#include "cuda/device/runtime/stream.hpp"
#include "cuda/device_calls.hpp"

namespace zeroproof::cuda::device {

/// Devices that this process may use, at least 1. Errors: unavailable if there are none.
int num_devices();

/// Gives this host thread device `local_rank` modulo num_devices(), and returns which one that is. Streams, events and
/// memory belong to the device of the thread that made them. local_rank >= 0.
int choose_device(int local_rank);

int num_multiprocessors();

/// Calls of this host thread so far.
const DeviceCalls& device_calls();

/// Names the step in errors that this host thread reports from now on, "in step 12"; negative: none. An error of the
/// device that lasts was there before the call that reports it.
void name_step(std::int64_t step);

inline constexpr int block_threads = 256;

/// Blocks for so many threads' worth of work: at least 1, at most what fills the device. Kernels stride over
/// the rest, and no bit of a result depends on the number.
inline int grid_blocks(std::int64_t work_items) {
  constexpr std::int64_t blocks_per_multiprocessor = 8;  // 2048 threads, all that one holds
  const std::int64_t wanted = (work_items + block_threads - 1) / block_threads;
  return static_cast<int>(
      std::clamp<std::int64_t>(wanted, 1, blocks_per_multiprocessor * num_multiprocessors()));
}

}  // namespace zeroproof::cuda::device
