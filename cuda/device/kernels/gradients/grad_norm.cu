#include "cuda/device/kernels/base/device_value.hpp"
#include "cuda/device/kernels/gradients/norm_sums.cuh"
#include "cuda/device/operations.hpp"
#include "cuda/device/runtime/runtime.hpp"

namespace zeroproof::cuda::device {

namespace {

/// One warp per chunk; lane l of the warp is lane l of R12, so each step of the warp loads 128
/// contiguous bytes at any alignment. grad: [numel]; sums: [norm_num_sums].
ZP_KERNEL norm_kernel(const float* grad, std::int64_t numel, Sum* sums) {
  Sum* block_sums = start_block_sums();
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
    if (lane == 0) add_to_block_sums(norm_deposit(value), block_sums);
  }
  finish_block_sums(block_sums, sums);
}

}  // namespace

void grad_norm_accumulate(const Exec&, Span<const float> grad, NormLimbs& limbs) {
  if (grad.empty()) return;
  const DeviceValue<NormSums> sums(
      {});  // one launch: 2^32 chunks are 2^42 elements, more than memory holds
  const std::int64_t num_chunks = (numel(grad) + norm_chunk_numel - 1) / norm_chunk_numel;
  launch(norm_kernel, grid_blocks(num_chunks * norm_num_lanes), block_threads, grad.data(),
         numel(grad), sums.get()->data());
  add_norm_sums(sums.fetch(), limbs);
}

}  // namespace zeroproof::cuda::device
