/**
 * \file
 * Kernels of a plug-in (zeroproof_plugin.h), in C++17: one source for a GPU and for the simulated device of
 * build/zeroproof-sim, which runs them on the processor, thread by thread, without CUDA.
 *
 *     nvcc -std=c++17 -O2 -fmad=false -shared -Xcompiler -fPIC -I DIR mine.cu -o libmine.so     for build/zeroproof
 *     c++ -std=c++17 -O2 -ffp-contract=off -shared -fPIC -I DIR -x c++ mine.cu -o libmine.so    for build/zeroproof-sim
 *
 * Include it instead of CUDA's headers. The simulated device has shared memory, barriers, shuffles, votes, atomics,
 * vector types, __nv_bfloat16 and __half (zeroproof_kernel_types.h); a kernel has one dimension. What it does not have
 * is refused by a static_assert with the reason (zeroproof_kernel_refused.h). A kernel is launched by zeroproof_launch
 * or zeroproof_launch_shared. The description's device_type is ZEROPROOF_DEVICE.
 *
 * On the simulated device nothing runs before zeroproof waits for the stream, the host cannot
 * access device memory (an access dies of SIGSEGV), and the threads of a block start in a varying
 * order.
 */
#ifndef ZEROPROOF_KERNEL_H
#define ZEROPROOF_KERNEL_H

#include <zeroproof_plugin.h> /* of the same folder, which -I names */

#ifdef __CUDACC__

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define ZEROPROOF_DEVICE ZEROPROOF_CUDA
#define ZEROPROOF_DYNAMIC_SHARED(type, name) extern __shared__ type name[]

/**
 * The same with `shared_bytes` of dynamic shared memory, at most 48 KiB.
 */
template <class... Parameters, class... Arguments>
int32_t zeroproof_launch_shared(void (*kernel)(Parameters...), int32_t grid, int32_t block,
                                int32_t shared_bytes, void* stream, Arguments... arguments) {
  kernel<<<(unsigned)grid, (unsigned)block, (size_t)shared_bytes, (cudaStream_t)stream>>>(
      arguments...);
  return (int32_t)cudaGetLastError();
}

#else

#include <cmath>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>

#include <zeroproof_kernel_types.h>

#define ZEROPROOF_DEVICE ZEROPROOF_SIMULATED

/* Provided by zeroproof-plugin-sim, the process of a library in build/zeroproof-sim; elsewhere these are null, and no
   kernel is launched. */
extern "C" {
typedef struct zeroproof_index {
  unsigned x;
} zeroproof_index;
typedef struct zeroproof_shared_array {
  unsigned char* (*data)(void);
  uint64_t capacity;
  const struct zeroproof_shared_array* next;
} zeroproof_shared_array;
typedef struct zeroproof_sim_kernel {
  int32_t grid, block, shared_bytes;
  void (*thread)(void* arguments);
  void (*release)(void* arguments);
  void* arguments;
  unsigned char* (*shared)(void);
  const zeroproof_shared_array* arrays;
} zeroproof_sim_kernel;
__attribute__((weak)) const zeroproof_index* zeroproof_sim_index(int32_t which);
__attribute__((weak)) int32_t zeroproof_sim_barrier(int32_t predicate, int32_t line);
__attribute__((weak)) uint64_t zeroproof_sim_exchange(uint32_t mask, uint64_t bits, uint32_t source,
                                                      int32_t line);
__attribute__((weak)) int32_t zeroproof_sim_launch(void* stream,
                                                   const zeroproof_sim_kernel* kernel);
}

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __noinline__ /* empty: libraries write __attribute__((__noinline__)) */
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

/* Blocks run one after another on one thread of the host, which has a copy of each such variable; the simulator fills
   them with 0xFF before each block. */
#define __shared__ thread_local

/**
 * In the namespace of a kernel that declares `extern __shared__ type name[];`, before it: the array's memory. In CUDA
 * all such arrays begin at the same address, here each is memory of its own. g++ needs a namespace with a name.
 */
#define ZEROPROOF_DYNAMIC_SHARED(type, name)                     \
  alignas(16) __shared__ type name[49152 / sizeof(type)];        \
  static const zeroproof_shared_entry zeroproof_entry_of_##name( \
      [] { return (unsigned char*)(void*)(name); }, sizeof(name))

__attribute__((visibility("hidden"))) inline const zeroproof_shared_array* zeroproof_shared_arrays =
    nullptr;
struct zeroproof_shared_entry {
  zeroproof_shared_array array;
  zeroproof_shared_entry(unsigned char* (*data)(), uint64_t bytes)
      : array{data, bytes, zeroproof_shared_arrays} {
    zeroproof_shared_arrays = &array;
  }
};

/** An address in this library's thread-local memory. */
static inline unsigned char* zeroproof_shared_anchor() {
  static thread_local unsigned char anchor;
  return &anchor;
}

/** threadIdx and blockIdx (others 0), blockDim and gridDim (others 1). */
template <unsigned others>
struct zeroproof_index3 {
  unsigned x;
  static constexpr unsigned y = others, z = others;
  operator uint3() const { return {x, y, z}; }
  operator dim3() const { return {x, y, z}; }
};
#define threadIdx (zeroproof_index3<0>{zeroproof_sim_index(0)->x})
#define blockIdx (zeroproof_index3<0>{zeroproof_sim_index(1)->x})
#define blockDim (zeroproof_index3<1>{zeroproof_sim_index(2)->x})
#define gridDim (zeroproof_index3<1>{zeroproof_sim_index(3)->x})
constexpr int warpSize = 32;

/* The line is the caller's: a barrier or shuffle in another line is a different one. */

inline void __syncthreads(int32_t line = __builtin_LINE()) { zeroproof_sim_barrier(0, line); }
inline int __syncthreads_count(int predicate, int32_t line = __builtin_LINE()) {
  return zeroproof_sim_barrier(predicate != 0, line);
}
inline int __syncthreads_or(int predicate, int32_t line = __builtin_LINE()) {
  return zeroproof_sim_barrier(predicate != 0, line) != 0;
}
inline int __syncthreads_and(int predicate, int32_t line = __builtin_LINE()) {
  return zeroproof_sim_barrier(predicate == 0, line) == 0;
}

inline unsigned zeroproof_lane() { return threadIdx.x % 32; }

/** A value of up to 8 bytes from lane `source` of the warp. */
template <class T>
T zeroproof_from_lane(unsigned mask, T value, unsigned source, int width, int32_t line) {
  static_assert(
      std::is_trivially_copyable_v<T> && sizeof(T) <= 8,
      "zeroproof: a shuffle moves values of at most 8 bytes; shuffle the members one by one");
  const bool is_width = width > 0 && width <= 32 && (width & (width - 1)) == 0;
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = zeroproof_sim_exchange(mask, bits, is_width ? source : 34, line);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/* Of a lane that the mask does not name they return 0xFF bytes: NaN as a float. */

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, int32_t line = __builtin_LINE()) {
  const unsigned lane = zeroproof_lane(), last = (unsigned)width - 1;
  return zeroproof_from_lane(mask, value, (lane & ~last) | ((unsigned)source & last), width, line);
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 int32_t line = __builtin_LINE()) {
  const unsigned lane = zeroproof_lane(), place = lane & ((unsigned)width - 1);
  return zeroproof_from_lane(mask, value, place >= delta ? lane - delta : lane, width, line);
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   int32_t line = __builtin_LINE()) {
  const unsigned lane = zeroproof_lane(), place = lane & ((unsigned)width - 1);
  const bool inside = delta < (unsigned)width && place + delta < (unsigned)width;
  return zeroproof_from_lane(mask, value, inside ? lane + delta : lane, width, line);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32,
                  int32_t line = __builtin_LINE()) {
  const unsigned lane = zeroproof_lane(), source = lane ^ (unsigned)lanes;
  return zeroproof_from_lane(mask, value, source <= (lane | ((unsigned)width - 1)) ? source : lane,
                             width, line);
}

inline void __syncwarp(unsigned mask = 0xFFFFFFFFU, int32_t line = __builtin_LINE()) {
  zeroproof_sim_exchange(mask, 0, 32, line);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, int32_t line = __builtin_LINE()) {
  return (unsigned)zeroproof_sim_exchange(mask, predicate != 0, 32, line);
}
inline int __any_sync(unsigned mask, int predicate, int32_t line = __builtin_LINE()) {
  return __ballot_sync(mask, predicate, line) != 0;
}
inline int __all_sync(unsigned mask, int predicate, int32_t line = __builtin_LINE()) {
  return __ballot_sync(mask, predicate, line) == mask;
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned value, int32_t line = __builtin_LINE()) {
  return (unsigned)zeroproof_sim_exchange(mask, value, 33, line);
}

/* Blocks run one after another and threads switch only where they wait: an atomic is a read and a write. The order of
   floating-point sums is that of the threads, which changes from launch to launch. */

template <class T, class... Others>
constexpr bool zeroproof_is_one_of = (std::is_same_v<T, Others> || ...);

#define ZEROPROOF_ATOMIC_AS(name, result, ...)                                           \
  template <class T>                                                                     \
  T name(T* at, std::common_type_t<T> value) {                                           \
    static_assert(zeroproof_is_one_of<T, __VA_ARGS__>,                                   \
                  "zeroproof: CUDA has no " #name " of this type; long is one of them"); \
    const T old = *at;                                                                   \
    *at = (result);                                                                      \
    return old;                                                                          \
  }
#define ZEROPROOF_ATOMIC(name, result, ...)              \
  ZEROPROOF_ATOMIC_AS(name, result, __VA_ARGS__)         \
  ZEROPROOF_ATOMIC_AS(name##_block, result, __VA_ARGS__) \
  ZEROPROOF_ATOMIC_AS(name##_system, result, __VA_ARGS__)
ZEROPROOF_ATOMIC(atomicAdd, old + value, int, unsigned, unsigned long long, float, double,
                 __nv_bfloat16, __half, __nv_bfloat162, __half2)
ZEROPROOF_ATOMIC(atomicSub, old - value, int, unsigned)
ZEROPROOF_ATOMIC(atomicExch, value, int, unsigned, unsigned long long, float)
ZEROPROOF_ATOMIC(atomicMax, old < value ? value : old, int, unsigned, long long, unsigned long long)
ZEROPROOF_ATOMIC(atomicMin, value < old ? value : old, int, unsigned, long long, unsigned long long)
ZEROPROOF_ATOMIC(atomicAnd, old& value, int, unsigned, unsigned long long)
ZEROPROOF_ATOMIC(atomicOr, old | value, int, unsigned, unsigned long long)
ZEROPROOF_ATOMIC(atomicXor, old ^ value, int, unsigned, unsigned long long)
ZEROPROOF_ATOMIC(atomicInc, old >= value ? 0 : old + 1, unsigned)
ZEROPROOF_ATOMIC(atomicDec, old == 0 || old > value ? value : old - 1, unsigned)
#undef ZEROPROOF_ATOMIC
#undef ZEROPROOF_ATOMIC_AS

template <class T>
T atomicCAS(T* at, std::common_type_t<T> expected, std::common_type_t<T> value) {
  static_assert(zeroproof_is_one_of<T, int, unsigned, unsigned long long, unsigned short>,
                "zeroproof: CUDA has no atomicCAS of this type; compare its bits as an unsigned");
  const T old = *at;
  if (old == expected) *at = value;
  return old;
}

inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}

template <class T>
T __ldg(const T* at) {
  return *at;
}
template <class T>
T __ldcs(const T* at) {
  return *at;
}
template <class T>
T __ldcg(const T* at) {
  return *at;
}
template <class T>
void __stcs(T* at, std::common_type_t<T> value) {
  *at = value;
}

inline int __float_as_int(float x) { return zeroproof_bits<int>(x); }
inline unsigned __float_as_uint(float x) { return zeroproof_bits<unsigned>(x); }
inline float __int_as_float(int x) { return zeroproof_bits<float>(x); }
inline float __uint_as_float(unsigned x) { return zeroproof_bits<float>(x); }
inline long long __double_as_longlong(double x) { return zeroproof_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return zeroproof_bits<double>(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __frcp_rn(float a) { return 1 / a; }
inline float __frsqrt_rn(float a) { return (float)(1 / std::sqrt((double)a)); }
/** CUDA's is within 2 units in the last place of this. */
inline float rsqrtf(float a) { return __frsqrt_rn(a); }
inline double rsqrt(double a) { return 1 / std::sqrt(a); }

#define ZEROPROOF_MIN_MAX(T)                       \
  inline T min(T a, T b) { return b < a ? b : a; } \
  inline T max(T a, T b) { return a < b ? b : a; }
ZEROPROOF_MIN_MAX(int)
ZEROPROOF_MIN_MAX(unsigned)
ZEROPROOF_MIN_MAX(long)
ZEROPROOF_MIN_MAX(unsigned long)
ZEROPROOF_MIN_MAX(long long)
ZEROPROOF_MIN_MAX(unsigned long long)
#undef ZEROPROOF_MIN_MAX
inline float min(float a, float b) { return std::fmin(a, b); }
inline float max(float a, float b) { return std::fmax(a, b); }
inline double min(double a, double b) { return std::fmin(a, b); }
inline double max(double a, double b) { return std::fmax(a, b); }

/**
 * The same with `shared_bytes` of dynamic shared memory, at most 48 KiB.
 */
template <class... Parameters, class... Arguments>
int32_t zeroproof_launch_shared(void (*kernel)(Parameters...), int32_t grid, int32_t block,
                                int32_t shared_bytes, void* stream, Arguments... arguments) {
  struct Call {
    void (*kernel)(Parameters...);
    std::tuple<std::decay_t<Parameters>...> given;
  };
  if (zeroproof_sim_launch == nullptr) return -1;
  const zeroproof_sim_kernel launch = {grid,
                                       block,
                                       shared_bytes,
                                       [](void* call) {
                                         std::apply(static_cast<Call*>(call)->kernel,
                                                    static_cast<Call*>(call)->given);
                                       },
                                       [](void* call) { delete static_cast<Call*>(call); },
                                       new Call{kernel, {arguments...}},
                                       zeroproof_shared_anchor,
                                       zeroproof_shared_arrays};
  return zeroproof_sim_launch(stream, &launch);
}

#include <zeroproof_kernel_refused.h>

#endif

/**
 * Enqueues kernel(arguments...) with `grid` blocks of `block` threads, a multiple of 32. stream: of the call. Returns
 * 0, or CUDA's error; -1 for a launch that no device would start, or where no device is simulated.
 */
template <class... Parameters, class... Arguments>
int32_t zeroproof_launch(void (*kernel)(Parameters...), int32_t grid, int32_t block, void* stream,
                         Arguments... arguments) {
  return zeroproof_launch_shared(kernel, grid, block, 0, stream, arguments...);
}

#endif
