/**
 * \file
 * Parts of CUDA that the simulated device does not have: each is refused where it is used, by a static_assert with the
 * reason. zeroproof_kernel.h includes it last.
 */
#ifndef ZEROPROOF_KERNEL_REFUSED_H
#define ZEROPROOF_KERNEL_REFUSED_H

/* False, once a template has its arguments. */
template <class...>
constexpr bool zeroproof_has = false;

#define ZEROPROOF_REFUSED_AS(result, name, why)                              \
  template <class... Named, class... Arguments>                              \
  result name(Arguments&&...) {                                              \
    static_assert(zeroproof_has<Arguments..., Named...>,                     \
                  "zeroproof: the simulated device has no " #name ": " why); \
    return {};                                                               \
  }
#define ZEROPROOF_REFUSED(name, why) ZEROPROOF_REFUSED_AS(int, name, why)

/* Inline assembly. The headers of C++ write __asm__. */
#define asm                                                                                    \
  static_assert(false,                                                                         \
                "zeroproof: the simulated device has no inline PTX: write C++, and PTX under " \
                "#ifdef __CUDACC__");                                                          \
  __asm__

#define __managed__ \
  static_assert(    \
      false, "zeroproof: the simulated device has no managed memory: the host passes arguments");
#define __cluster_dims__(...) \
  static_assert(false,        \
                "zeroproof: the simulated device has no clusters: blocks run one after another");

#define ZEROPROOF_GROUPS "name the threads by __syncthreads() and __shfl_..._sync()"
namespace cooperative_groups {
/* With the members that kernels call, so that the reason is the only error. */
struct thread_block {
  void sync() const {}
  static unsigned size() { return 0; }
  static unsigned num_threads() { return 0; }
  static unsigned thread_rank() { return 0; }
  static bool is_valid() { return false; }
  template <class T>
  T shfl(T value, unsigned) const {
    return value;
  }
  template <class T>
  T shfl_down(T value, unsigned) const {
    return value;
  }
  template <class T>
  T shfl_up(T value, unsigned) const {
    return value;
  }
  template <class T>
  T shfl_xor(T value, unsigned) const {
    return value;
  }
};
using grid_group = thread_block;
using coalesced_group = thread_block;
template <unsigned size, class Parent = void>
struct thread_block_tile {
  static_assert(zeroproof_has<Parent>,
                "zeroproof: the simulated device has no cooperative groups: " ZEROPROOF_GROUPS);
};
ZEROPROOF_REFUSED_AS(thread_block, this_thread_block,
                     "of cooperative groups it has none; " ZEROPROOF_GROUPS)
ZEROPROOF_REFUSED_AS(
    thread_block, this_grid,
    "blocks run one after another and cannot wait for each other; launch two kernels")
ZEROPROOF_REFUSED_AS(thread_block, coalesced_threads,
                     "of cooperative groups it has none; " ZEROPROOF_GROUPS)
template <unsigned size, class... Arguments>
thread_block tiled_partition(Arguments&&...) {
  static_assert(zeroproof_has<Arguments...>,
                "zeroproof: the simulated device has no tiled_partition: of cooperative groups it "
                "has none; " ZEROPROOF_GROUPS);
  return {};
}
}  // namespace cooperative_groups

#define ZEROPROOF_MATRICES \
  "the sums inside of a tensor core have an order that no processor reproduces; multiply and add"
namespace nvcuda {
namespace wmma {
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
template <class Use, int m, int n, int k, class T, class Layout = void>
struct fragment {
  static_assert(zeroproof_has<Use>,
                "zeroproof: the simulated device has no wmma::fragment: " ZEROPROOF_MATRICES);
};
ZEROPROOF_REFUSED(load_matrix_sync, ZEROPROOF_MATRICES)
ZEROPROOF_REFUSED(store_matrix_sync, ZEROPROOF_MATRICES)
ZEROPROOF_REFUSED(fill_fragment, ZEROPROOF_MATRICES)
ZEROPROOF_REFUSED(mma_sync, ZEROPROOF_MATRICES)
}  // namespace wmma
}  // namespace nvcuda

#define ZEROPROOF_TEXTURES "textures interpolate and clamp; read the array"
using cudaTextureObject_t = unsigned long long;
using cudaSurfaceObject_t = unsigned long long;
template <class T, int type = 1, int mode = 0>
struct texture {
  static_assert(zeroproof_has<T>,
                "zeroproof: the simulated device has no texture: " ZEROPROOF_TEXTURES);
};
ZEROPROOF_REFUSED(tex1D, ZEROPROOF_TEXTURES)
ZEROPROOF_REFUSED(tex1Dfetch, ZEROPROOF_TEXTURES)
ZEROPROOF_REFUSED(tex2D, ZEROPROOF_TEXTURES)
ZEROPROOF_REFUSED(tex3D, ZEROPROOF_TEXTURES)
ZEROPROOF_REFUSED(surf2Dread, ZEROPROOF_TEXTURES)
ZEROPROOF_REFUSED(surf2Dwrite, ZEROPROOF_TEXTURES)

/* glibc declares functions of some of these names. Each has its number, so that each use is an error. */
template <int name, class... Arguments>
float zeroproof_fast(Arguments...) {
  static_assert(zeroproof_has<Arguments...>,
                "zeroproof: the simulated device has no fast approximations (__expf, __logf and "
                "the like): their bits are "
                "those of one GPU; call the function without underscores");
  return 0;
}
#define __expf zeroproof_fast<1>
#define __exp10f zeroproof_fast<2>
#define __logf zeroproof_fast<3>
#define __log2f zeroproof_fast<4>
#define __log10f zeroproof_fast<5>
#define __powf zeroproof_fast<6>
#define __sinf zeroproof_fast<7>
#define __cosf zeroproof_fast<8>
#define __tanf zeroproof_fast<9>
#define __tanhf zeroproof_fast<10>
ZEROPROOF_REFUSED(__fdividef, "its bits are those of one GPU; divide by / or __fdiv_rn")

ZEROPROOF_REFUSED(__activemask, "which lanes run together is undefined; name them in a mask")
ZEROPROOF_REFUSED(__match_any_sync, "compare values by __shfl_sync")
ZEROPROOF_REFUSED(__match_all_sync, "compare values by __shfl_sync")
ZEROPROOF_REFUSED(__reduce_add_sync, "add values by __shfl_xor_sync")
ZEROPROOF_REFUSED(__reduce_min_sync, "compare values by __shfl_xor_sync")
ZEROPROOF_REFUSED(__shfl, "it has no mask, and CUDA removed it; call __shfl_sync")
ZEROPROOF_REFUSED(__shfl_down, "it has no mask, and CUDA removed it; call __shfl_down_sync")
ZEROPROOF_REFUSED(__shfl_up, "it has no mask, and CUDA removed it; call __shfl_up_sync")
ZEROPROOF_REFUSED(__shfl_xor, "it has no mask, and CUDA removed it; call __shfl_xor_sync")
ZEROPROOF_REFUSED(__ballot, "it has no mask, and CUDA removed it; call __ballot_sync")
ZEROPROOF_REFUSED(__pipeline_memcpy_async, "copies of a thread are done at once; assign")
ZEROPROOF_REFUSED(__pipeline_commit, "copies of a thread are done at once; assign")
ZEROPROOF_REFUSED(__pipeline_wait_prior, "copies of a thread are done at once; assign")
ZEROPROOF_REFUSED(__nanosleep, "it does not simulate time")
ZEROPROOF_REFUSED(clock64, "it does not simulate time")

#define ZEROPROOF_HOST                                                                        \
  "a library enqueues kernels on the call's stream, by zeroproof_launch, and owns no device " \
  "memory"
using cudaStream_t = void*;
ZEROPROOF_REFUSED(cudaMalloc, ZEROPROOF_HOST)
ZEROPROOF_REFUSED(cudaMallocAsync, ZEROPROOF_HOST)
ZEROPROOF_REFUSED(cudaFree, ZEROPROOF_HOST)
ZEROPROOF_REFUSED(cudaMemcpy, ZEROPROOF_HOST)
ZEROPROOF_REFUSED(cudaMemcpyAsync, ZEROPROOF_HOST)
ZEROPROOF_REFUSED(cudaMemcpyToSymbol, ZEROPROOF_HOST)
ZEROPROOF_REFUSED(cudaMemset, ZEROPROOF_HOST)
ZEROPROOF_REFUSED(cudaMemsetAsync, ZEROPROOF_HOST)
ZEROPROOF_REFUSED(cudaDeviceSynchronize, "zeroproof waits for the stream after the call")
ZEROPROOF_REFUSED(cudaStreamSynchronize, "zeroproof waits for the stream after the call")
ZEROPROOF_REFUSED(cudaFuncSetAttribute, "a block has at most 48 KiB of shared memory")
ZEROPROOF_REFUSED(cudaLaunchKernel, ZEROPROOF_HOST)
ZEROPROOF_REFUSED(cudaLaunchKernelEx, ZEROPROOF_HOST)
ZEROPROOF_REFUSED(cudaLaunchCooperativeKernel,
                  "blocks run one after another and cannot wait for each other")
ZEROPROOF_REFUSED(cudaLaunchDevice, "a kernel cannot launch another one; launch both from the host")
ZEROPROOF_REFUSED(cudaGetParameterBuffer,
                  "a kernel cannot launch another one; launch both from the host")

#endif
