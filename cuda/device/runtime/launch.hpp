#pragma once
// The only file that defines kernels. nvcc compiles them as CUDA kernels; every other compiler
// makes functions that cuda/device/sim executes thread by thread on the processor. Kernels
// therefore use only
//   ZP_KERNEL name(...)             instead of __global__ void; a template, or in an unnamed namespace
//   ZP_KERNEL_BLOCKS(N) name(...)   the same, in so few registers that a multiprocessor holds N blocks
//   ZP_DEVICE                       instead of __device__
//   ZP_SHARED_ARRAY(T, name, N)     instead of __shared__ T name[N]; N constant, content undefined
//   ZP_UNROLL                       instead of #pragma unroll
//   launch(kernel, grid, block, arguments...)  instead of <<<>>>
//   threadIdx.x, blockIdx.x, blockDim.x, gridDim.x, __syncthreads, __threadfence, __shfl_down_sync and
//   __reduce_max_sync of a whole warp, __fmaf_rn, clock_nanoseconds(), and atomicAdd, atomicMax and atomicOr of
//   integers.

#ifdef __CUDACC__

#include <cstdint>
#include <utility>

#include "cuda/device/runtime/cuda_call.hpp"
#include "cuda/device/runtime/runtime.hpp"

#define ZP_KERNEL __global__ void __launch_bounds__(::zeroproof::cuda::device::block_threads)
#define ZP_KERNEL_BLOCKS(N) \
  __global__ void __launch_bounds__(::zeroproof::cuda::device::block_threads, N)
#define ZP_DEVICE __device__
#define ZP_SHARED_ARRAY(T, name, N) __shared__ T name[N]
#define ZP_UNROLL _Pragma("unroll")

namespace zeroproof::cuda::device {

/// Nanoseconds of a clock that all kernels of the device share; it may not advance for up to a
/// microsecond.
__device__ inline std::uint64_t clock_nanoseconds() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

/// Enqueues kernel(args...) on the current stream. The next wait reports errors of its execution.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), int grid, int block, Arguments&&... args) {
  kernel<<<static_cast<unsigned>(grid), static_cast<unsigned>(block), 0, current_cuda_stream()>>>(
      std::forward<Arguments>(args)...);
  check_cuda(cudaGetLastError(), __PRETTY_FUNCTION__);  // has the types of its parameters
  count_launch();
}

}  // namespace zeroproof::cuda::device

#else

#include "cuda/device/sim/kernel_language.hpp"

#endif
