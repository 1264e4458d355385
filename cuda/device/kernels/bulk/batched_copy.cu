#include "cuda/device/kernels/bulk/batched_copy.hpp"

#include "cuda/device/runtime/launch.hpp"

#ifdef __CUDACC__

#include <thrust/iterator/transform_iterator.h>

#include <cub/device/device_memcpy.cuh>

#include "cuda/device/kernels/base/host_device.cuh"

namespace zeroproof::cuda::device {

namespace {

struct Target {
  ZP_HOST_DEVICE void* operator()(const Move& move) const { return move.to; }
};

struct Source {
  ZP_HOST_DEVICE const void* operator()(const Move& move) const { return move.from; }
};

struct NumBytes {
  ZP_HOST_DEVICE std::int64_t operator()(const Move& move) const { return move.num_bytes; }
};

void copy(void* scratch, std::size_t& scratch_bytes, const Move* moves, std::int64_t count,
          cudaStream_t stream) {
  check_cuda(cub::DeviceMemcpy::Batched(
                 scratch, scratch_bytes, thrust::make_transform_iterator(moves, Source{}),
                 thrust::make_transform_iterator(moves, Target{}),
                 thrust::make_transform_iterator(moves, NumBytes{}), count, stream),
             "copying a batch on the device");
}

}  // namespace

std::int64_t batched_copy_scratch_bytes(std::int64_t count) {
  std::size_t bytes = 0;
  copy(nullptr, bytes, nullptr, count, nullptr);
  return static_cast<std::int64_t>(bytes);
}

void enqueue_batched_copy(const Move* moves, std::int64_t count, void* scratch) {
  auto bytes = static_cast<std::size_t>(batched_copy_scratch_bytes(count));
  copy(scratch, bytes, moves, count, current_cuda_stream());
  count_launch();
}

}  // namespace zeroproof::cuda::device

#else

#include <cstring>

#include "cuda/device/runtime/runtime.hpp"

namespace zeroproof::cuda::device {

namespace {

/// One thread per move; the order of the moves differs in every launch.
ZP_KERNEL batched_copy_kernel(const Move* moves, std::int64_t count, unsigned char* scratch) {
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = thread; i < count; i += stride) {
    scratch[i] = 0;  // scratch has one word per move
    if (moves[i].num_bytes > 0)
      std::memcpy(moves[i].to, moves[i].from, static_cast<std::size_t>(moves[i].num_bytes));
  }
}

}  // namespace

std::int64_t batched_copy_scratch_bytes(std::int64_t count) { return count; }

void enqueue_batched_copy(const Move* moves, std::int64_t count, void* scratch) {
  launch(batched_copy_kernel, grid_blocks(count), block_threads, moves, count,
         static_cast<unsigned char*>(scratch));
}

}  // namespace zeroproof::cuda::device

#endif
