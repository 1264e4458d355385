// The p-norm, of class bounded: it uses the library's pow(), which contracts. It is the only such
// operation and no step uses it, so it has its own file, which the test of the generated code
// treats as an exception.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string>

#include "common/base/error.hpp"
#include "cuda/device/kernels/base/device_value.hpp"
#include "cuda/device/operations.hpp"
#include "cuda/device/runtime/launch.hpp"
#include "cuda/device/runtime/runtime.hpp"

namespace zeroproof::cuda::device {

namespace {

/// partials[b] = the part of sum (|x| / amax)^p that block b adds. Each thread adds its elements in
/// order and each block its threads as a tree: no float atomics (R10), and the same bits every
/// time. grad: [numel]; partials: [grid].
ZP_KERNEL power_sum_kernel(const float* grad, std::int64_t numel, double amax, double p,
                           double* partials) {
  ZP_SHARED_ARRAY(double, sums, block_threads);
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  double sum = 0.0;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < numel;
       i += stride) {
    const double ratio = fabs(static_cast<double>(grad[i])) / amax;
    sum = sum + pow(ratio, p);
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned w = block_threads / 2; w > 0; w /= 2) {
    if (threadIdx.x < w) sums[threadIdx.x] = sums[threadIdx.x] + sums[threadIdx.x + w];
    __syncthreads();
  }
  if (threadIdx.x == 0) partials[blockIdx.x] = sums[0];
}

/// +0 for blocks beyond the grid.
using Partials = std::array<double, 512>;

/// The number of blocks depends on the size alone, so the result does not depend on the device
/// either.
int num_blocks(std::int64_t numel) {
  constexpr std::int64_t elements_per_block = 16 * block_threads,
                         most = std::tuple_size_v<Partials>;
  return static_cast<int>(std::clamp<std::int64_t>(numel / elements_per_block, 1, most));
}

}  // namespace

double grad_norm_p(const Exec& exec, Span<const float> grad, double p) {
  ZP_CHECK(std::isfinite(p) && p > 0, ErrorCode::invalid_argument, "p is " + std::to_string(p),
           "sum |x|^p has a p-th root only for a finite p above 0",
           "pass such a p, or use the form inf for the largest magnitude");
  std::uint32_t amax_bits = 0;
  grad_max_accumulate(exec, grad, amax_bits);
  const double amax = static_cast<double>(std::bit_cast<float>(amax_bits));
  if (amax_bits == 0 || amax_bits >= 0x7F800000U) return amax;  // +0, +infinity or NaN

  const int blocks = num_blocks(numel(grad));
  const DeviceValue<Partials> partials({});
  launch(power_sum_kernel, blocks, block_threads, grad.data(), numel(grad), amax, p,
         partials.get()->data());
  double sum = 0;
  for (const double partial : partials.fetch()) sum = sum + partial;
  return amax * std::pow(sum, 1.0 / p);
}

}  // namespace zeroproof::cuda::device
