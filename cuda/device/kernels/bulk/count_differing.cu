#include "cuda/device/kernels/bulk/count_differing.hpp"

#include "cuda/device/runtime/launch.hpp"
#include "cuda/device/runtime/runtime.hpp"

#ifdef __CUDACC__

#include <thrust/execution_policy.h>
#include <thrust/functional.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/system_error.h>
#include <thrust/transform_reduce.h>

#include <cstddef>

#include "cuda/device/kernels/base/host_device.cuh"
#include "cuda/device/runtime/calls.hpp"

namespace zeroproof::cuda::device {

namespace {

template <class Word>
struct Differs {
  const Word* a;
  const Word* b;

  ZP_HOST_DEVICE std::int64_t operator()(std::int64_t i) const { return a[i] != b[i] ? 1 : 0; }
};

/// Allocator for the scratch memory of the reduction.
struct StreamMemory {
  using value_type = char;

  char* allocate(std::ptrdiff_t num_bytes) {
    return static_cast<char*>(device_allocate(num_bytes));
  }
  void deallocate(char* data, std::size_t) { device_release(data); }
};

template <class Word>
std::int64_t count(const Word* a, const Word* b, std::int64_t numel) {
  if (capturing()) refuse_in_capture("a comparison that waits");
  if (numel == 0) return 0;
  StreamMemory memory;
  count_launch();
  ++counted_calls().waits;
  try {
    const thrust::counting_iterator<std::int64_t> first(0);
    return thrust::transform_reduce(thrust::cuda::par(memory).on(current_cuda_stream()), first,
                                    first + numel, Differs<Word>{a, b}, std::int64_t{0},
                                    thrust::plus<std::int64_t>());
  } catch (const thrust::system_error& error) {
    check_cuda(static_cast<cudaError_t>(error.code().value()), "comparing on the device");
    throw;
  }
}

}  // namespace

}  // namespace zeroproof::cuda::device

#else

#include <cstddef>
#include <functional>
#include <numeric>

#include "cuda/device/kernels/base/device_value.hpp"

namespace zeroproof::cuda::device {

namespace {

template <class Word>
ZP_KERNEL count_kernel(const Word* a, const Word* b, std::int64_t numel, std::int64_t* differing) {
  if (threadIdx.x != 0) return;
  *differing = std::transform_reduce(a, a + numel, b, std::int64_t{0}, std::plus<>(),
                                     [](Word x, Word y) { return std::int64_t{x != y ? 1 : 0}; });
}

template <class Word>
std::int64_t count(const Word* a, const Word* b, std::int64_t numel) {
  if (numel == 0) return 0;
  const DeviceValue<std::int64_t> found(0);
  launch(count_kernel<Word>, 1, block_threads, a, b, numel, found.get());
  return found.fetch();
}

}  // namespace

}  // namespace zeroproof::cuda::device

#endif

namespace zeroproof::cuda::device {

std::int64_t count_differing(const std::uint16_t* a, const std::uint16_t* b, std::int64_t numel) {
  return count(a, b, numel);
}

std::int64_t count_differing(const std::uint32_t* a, const std::uint32_t* b, std::int64_t numel) {
  return count(a, b, numel);
}

}  // namespace zeroproof::cuda::device
