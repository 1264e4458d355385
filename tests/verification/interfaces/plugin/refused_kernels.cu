// Every use of CUDA that the simulated device refuses, in one file: with REFUSED, each line marked by the name of its
// reason is an error; without, nothing is.

#include <zeroproof_kernel.h>

namespace cg = cooperative_groups;

#ifdef REFUSED
__managed__ int counter;                            // managed memory
__cluster_dims__(2) __global__ void clustered() {}  // clusters
texture<float, 1> old_texture;                      // texture

__global__ void refused(float* x, cudaTextureObject_t image, unsigned mask) {
  const cg::thread_block block = cg::this_thread_block();  // this_thread_block
  block.sync();
  cg::thread_block_tile<32>* tile = nullptr;
  cg::this_grid().sync();                                                     // this_grid
  cg::coalesced_threads().sync();                                             // coalesced_threads
  x[0] = cg::tiled_partition<32>(block).shfl_down(x[0], 1);                   // tiled_partition
  if (sizeof(*tile) > 1) x[0] = 1;                                            // cooperative groups
  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> sums;  // wmma::fragment
  nvcuda::wmma::mma_sync(sums, sums, sums, sums);                             // mma_sync
  x[1] = tex2D<float>(image, 0.5F, 0.5F);                                     // tex2D
  x[2] = tex1Dfetch<float>(image, 3);                                         // tex1Dfetch
  asm volatile("bar.sync 0;");                                                // inline PTX
  x[3] = __expf(x[3]);                                                        // fast approximations
  x[4] = __logf(x[4]);                                                        // fast approximations
  x[5] = __powf(x[5], 2);                                                     // fast approximations
  x[5] = __fdividef(x[5], x[6]);                                              // __fdividef
  mask = __activemask();                                                      // __activemask
  mask |= __match_any_sync(mask, 3);                                          // __match_any_sync
  mask += __reduce_add_sync(mask, 3U);                                        // __reduce_add_sync
  x[7] = __shfl_down(x[7], 1);                                                // __shfl_down
  mask ^= __ballot(1);                                                        // __ballot
  __pipeline_memcpy_async(x, x + 8, 16);  // __pipeline_memcpy_async
  __nanosleep(100);                       // __nanosleep
  x[8] = clock64();                       // clock64
  cudaLaunchDevice(x, 0);                 // cudaLaunchDevice
  long sum = 0;
  atomicAdd(&sum, 1L);  // of this type
  struct Three {
    double x, y, z;
  };
  __shfl_sync(mask, Three{}, 0);  // at most 8 bytes
}

int host(float* x, cudaStream_t stream) {
  cudaMalloc(&x, 100);                                              // cudaMalloc
  cudaMemcpyAsync(x, x, 4, 1, stream);                              // cudaMemcpyAsync
  cudaMemsetAsync(x, 0, 4, stream);                                 // cudaMemsetAsync
  cudaFuncSetAttribute(refused, 8, 100000);                         // cudaFuncSetAttribute
  cudaLaunchCooperativeKernel(refused, 1, 32, nullptr, 0, stream);  // cudaLaunchCooperativeKernel
  return cudaDeviceSynchronize();                                   // cudaDeviceSynchronize
}
#endif
