/**
 * \file
 * Kernels of a plug-in (zeroproof_plugin.h), in C++17: one source for a GPU and for the simulated device of
 * build/zeroproof-sim, which runs them on the processor, thread by thread, without CUDA.
 *
 *     nvcc -std=c++17 -O2 -fmad=false -shared -Xcompiler -fPIC -I DIR mine.cu -o libmine.so     for build/zeroproof
 *     c++ -std=c++17 -O2 -ffp-contract=off -shared -fPIC -I DIR -x c++ mine.cu -o libmine.so    for build/zeroproof-sim
 *
 * A kernel may use __global__, __device__, threadIdx.x, blockIdx.x, blockDim.x, gridDim.x and __syncthreads(); shared
 * memory, shuffles and atomics are CUDA's alone and do not compile for the simulated device. It is launched by
 * zeroproof_launch. The description's device_type is ZEROPROOF_DEVICE.
 *
 * On the simulated device nothing runs before zeroproof waits for the stream, the host cannot
 * access device memory (an access dies of SIGSEGV), and the threads of a block start in a varying
 * order.
 */
#ifndef ZEROPROOF_KERNEL_H
#define ZEROPROOF_KERNEL_H

#include <zeroproof_plugin.h> /* of the same folder, which -I names */

#ifdef __CUDACC__

#include <cuda_runtime.h>

#define ZEROPROOF_DEVICE ZEROPROOF_CUDA

/**
 * Enqueues kernel(arguments...) with `grid` blocks of `block` threads. stream: of the call. Returns 0, or CUDA's error.
 */
template <class... Parameters, class... Arguments>
int32_t zeroproof_launch(void (*kernel)(Parameters...), int32_t grid, int32_t block, void* stream,
                         Arguments... arguments) {
  kernel<<<(unsigned)grid, (unsigned)block, 0, (cudaStream_t)stream>>>(arguments...);
  return (int32_t)cudaGetLastError();
}

#else

#include <tuple>
#include <type_traits>

#define ZEROPROOF_DEVICE ZEROPROOF_SIMULATED

/* Provided by zeroproof-plugin-sim, the process of a library in build/zeroproof-sim; elsewhere these are null, and no
   kernel is launched. */
extern "C" {
typedef struct zeroproof_index {
  unsigned x;
} zeroproof_index;
__attribute__((weak)) const zeroproof_index* zeroproof_sim_index(int32_t which);
__attribute__((weak)) void zeroproof_sim_barrier(int32_t line);
__attribute__((weak)) int32_t zeroproof_sim_enqueue(void* stream, int32_t grid, int32_t block,
                                                    void (*thread)(void* arguments),
                                                    void (*release)(void* arguments),
                                                    void* arguments);
}

#define __global__
#define __device__
#define threadIdx (*zeroproof_sim_index(0))
#define blockIdx (*zeroproof_sim_index(1))
#define blockDim (*zeroproof_sim_index(2))
#define gridDim (*zeroproof_sim_index(3))

/** The line is the caller's: a barrier in another line is a different barrier. */
inline void __syncthreads(int32_t line = __builtin_LINE()) { zeroproof_sim_barrier(line); }

/**
 * Enqueues kernel(arguments...) with `grid` blocks of `block` threads, a multiple of 32. stream: of the call. Returns
 * 0; -1 for a grid that no device would start, or where no device is simulated.
 */
template <class... Parameters, class... Arguments>
int32_t zeroproof_launch(void (*kernel)(Parameters...), int32_t grid, int32_t block, void* stream,
                         Arguments... arguments) {
  struct Call {
    void (*kernel)(Parameters...);
    std::tuple<std::decay_t<Parameters>...> given;
  };
  if (zeroproof_sim_enqueue == nullptr) return -1;
  return zeroproof_sim_enqueue(
      stream, grid, block,
      [](void* call) {
        std::apply(static_cast<Call*>(call)->kernel, static_cast<Call*>(call)->given);
      },
      [](void* call) { delete static_cast<Call*>(call); }, new Call{kernel, {arguments...}});
}

#endif
#endif
