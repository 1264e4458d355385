#pragma once
// The language of kernels for compilers without CUDA: cuda/device/runtime/launch.hpp includes this
// header there and lists the same names. The rest of CUDA is left out on purpose; a kernel that
// uses it does not compile here.

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>

#include "cuda/device/sim/simulator.hpp"

#define ZP_KERNEL void
#define ZP_KERNEL_BLOCKS(N) void
#define ZP_DEVICE
#define ZP_UNROLL
// NOLINTBEGIN(bugprone-macro-parentheses): a type and a name
#define ZP_SHARED_ARRAY(T, name, N) \
  T(&name)                          \
  [N] = *static_cast<T(*)[N]>(      \
      ::zeroproof::cuda::sim::shared_memory(__FILE__, __LINE__, sizeof(T[N])))
// NOLINTEND(bugprone-macro-parentheses)

namespace zeroproof::cuda::device {

// NOLINTBEGIN(bugprone-reserved-identifier): the words are CUDA's

using sim::blockDim;
using sim::blockIdx;
using sim::gridDim;
using sim::threadIdx;

/// The line is the caller's: a barrier in another line is another barrier.
inline void __syncthreads(int line = __builtin_LINE()) { sim::wait_for_block(line); }

/// Earlier writes of a thread are visible to threads that see its later ones. Blocks run one after
/// another and threads switch only where they wait, so this always holds.
inline void __threadfence() {}

/// A simulated device uses the clock of the host.
inline std::uint64_t clock_nanoseconds() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

/// x * y + z, rounded once (R27).
inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }

/// Value of the lane `delta` above, or the own one if there is none.
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int line = __builtin_LINE()) {
  static_assert(std::is_arithmetic_v<T> && sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  const unsigned from = sim::lane() + delta;
  bits = sim::exchange(mask, bits, from < 32 ? from : sim::lane(), line);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// The largest value of the lanes of a mask.
inline std::uint32_t __reduce_max_sync(unsigned mask, std::uint32_t value,
                                       int line = __builtin_LINE()) {
  return static_cast<std::uint32_t>(sim::exchange(mask, value, sim::greatest, line));
}

// NOLINTEND(bugprone-reserved-identifier)

// Threads switch only where they wait, so these need no atomic instructions. Integers only (R10).

template <class T>
T atomicAdd(T* at, std::type_identity_t<T> value) {
  static_assert(std::is_integral_v<T>);
  const T old = *at;
  *at = old + value;
  return old;
}

template <class T>
T atomicMax(T* at, std::type_identity_t<T> value) {
  static_assert(std::is_integral_v<T>);
  const T old = *at;
  *at = old < value ? value : old;
  return old;
}

template <class T>
T atomicOr(T* at, std::type_identity_t<T> value) {
  static_assert(std::is_integral_v<T>);
  const T old = *at;
  *at = old | value;
  return old;
}

/// Enqueues kernel(args...) on the current stream; every thread gets its own copies.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), int grid, int block, const Arguments&... args) {
  sim::enqueue_kernel(grid, block,
                      [kernel, arguments = std::tuple<std::decay_t<Parameters>...>(args...)] {
                        std::apply(kernel, arguments);
                      });
}

}  // namespace zeroproof::cuda::device
