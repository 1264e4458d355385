#pragma once
// All that twins need of a device, besides launch() (launch.hpp) and device_info() (device.hpp). It needs no
// CUDA: cuda_call.cu answers with the CUDA runtime, cuda/sim with the processor.

#include <algorithm>
#include <cstdint>

namespace zeroproof::cuda::device {

/// Memory of the device, aligned to at least 256 bytes. num_bytes > 0.
void* device_allocate(std::int64_t num_bytes);

/// Throws nothing: an error that lasts is reported by the next call that can.
void device_release(void* data) noexcept;

void copy_to_device(void* device, const void* host, std::int64_t num_bytes);

/// Waits for the kernels first, and reports what went wrong in them.
void copy_to_host(void* host, const void* device, std::int64_t num_bytes);

void fill_device(void* device, unsigned char byte, std::int64_t num_bytes);

int num_multiprocessors();

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
