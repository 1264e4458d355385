#include "cuda/device/grad_norm.hpp"

#include <algorithm>
#include <array>

#include "cuda/device/launch.hpp"
#include "cuda/device/norm_chunk.cuh"
#include "cuda/device/stage.hpp"

namespace zeroproof::cuda::device {

namespace {

using Sum = unsigned long long;  // the type that 64-bit atomics take
using Sums = std::array<Sum, norm_num_sums>;

/// The chunk value, in lane 0. In a round w only the lanes below w mean anything: each receives from a lane
/// below 2 w, which was one of them a round before. All 32 lanes of the warp call this.
__device__ double warp_tree(double lane_sum) {
  for (int w = norm_num_lanes / 2; w > 0; w /= 2) {
    const double other = __shfl_down_sync(0xFFFFFFFFU, lane_sum, static_cast<unsigned>(w));
    lane_sum = lane_sum + other;
  }
  return lane_sum;
}

/// One warp per chunk, lane l of the warp being lane l of R12: the 32 loads of a step are 128 bytes in a row,
/// and any alignment will do. Chunk values meet as integers only (R10), in the block's shared memory and once
/// per block in sums. grad: [numel]; sums: [norm_num_sums].
__global__ void __launch_bounds__(block_threads)
    norm_kernel(const float* grad, std::int64_t numel, Sum* sums) {
  __shared__ Sum block_sums[norm_num_sums];
  if (threadIdx.x < norm_num_sums) block_sums[threadIdx.x] = 0;
  __syncthreads();

  const int lane = static_cast<int>(threadIdx.x) % norm_num_lanes;
  const std::int64_t warps_per_block = blockDim.x / norm_num_lanes;
  const std::int64_t num_warps = gridDim.x * warps_per_block;
  const std::int64_t num_chunks = (numel + norm_chunk_numel - 1) / norm_chunk_numel;
  std::int64_t chunk = blockIdx.x * warps_per_block + threadIdx.x / norm_num_lanes;
  for (; chunk < num_chunks; chunk += num_warps) {  // the same for the 32 lanes of a warp
    const std::int64_t first = chunk * norm_chunk_numel;
    const std::int64_t left = numel - first;
    const int chunk_numel = static_cast<int>(left < norm_chunk_numel ? left : norm_chunk_numel);
    const double value = warp_tree(norm_lane_sum(grad + first, chunk_numel, lane));
    if (lane == 0) {
      const NormDeposit deposit = norm_deposit(value);
      for (int i = 0; i < 3; ++i) {
        if (deposit.digits[i] != 0) atomicAdd(&block_sums[deposit.first + i], Sum{deposit.digits[i]});
      }
    }
  }

  __syncthreads();
  if (threadIdx.x < norm_num_sums && block_sums[threadIdx.x] != 0) {
    atomicAdd(&sums[threadIdx.x], block_sums[threadIdx.x]);
  }
}

}  // namespace

void grad_norm_accumulate(const Exec&, Span<const float> grad, NormLimbs& limbs) {
  static_assert(std::tuple_size_v<decltype(NormLimbs::limbs)> == norm_num_limbs);
  if (grad.empty()) return;
  Sums sums{};
  const Span<Sum> host_sums(sums);
  Stage stage;
  const float* device_grad = stage.upload(grad);
  Sum* device_sums = stage.upload(host_sums);
  const std::int64_t num_chunks = (numel(grad) + norm_chunk_numel - 1) / norm_chunk_numel;
  launch(norm_kernel, grid_blocks(num_chunks * norm_num_lanes), block_threads, device_grad, numel(grad),
         device_sums);
  stage.download(host_sums);

  for (std::size_t i = 0; i < limbs.limbs.size(); ++i) limbs.limbs[i] += sums[i];
  limbs.nan_count += sums[norm_nan_count];
  limbs.inf_count += sums[norm_inf_count];
}

}  // namespace zeroproof::cuda::device
