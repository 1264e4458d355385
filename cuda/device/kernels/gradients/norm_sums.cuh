#pragma once
// The limbs and counts of R12 on the device: integers in the shared memory of a block, added once
// per block to those of the launch. Only integers leave a warp, so the order does not matter (R10);
// inside a chunk the lanes add floats in the order of R12.

#include <array>
#include <cmath>

#include "cuda/device/kernels/gradients/norm_chunk.cuh"
#include "cuda/device/runtime/launch.hpp"

namespace zeroproof::cuda::device {

using Sum = unsigned long long;                   ///< the type that 64-bit atomics take
using NormSums = std::array<Sum, norm_num_sums>;  ///< limbs, nan_count, inf_count

/// Block sums, all zero. Every thread of the block calls this, at the same place of the kernel.
ZP_DEVICE inline Sum* start_block_sums() {
  ZP_SHARED_ARRAY(Sum, block_sums, norm_num_sums);
  if (threadIdx.x < norm_num_sums) block_sums[threadIdx.x] = 0;
  __syncthreads();
  return block_sums;
}

ZP_DEVICE inline void add_to_block_sums(const NormDeposit& deposit, Sum* block_sums) {
  ZP_UNROLL
  for (int i = 0; i < 3; ++i) {
    if (deposit.digits[i] != 0) atomicAdd(&block_sums[deposit.first + i], Sum{deposit.digits[i]});
  }
}

enum class NormTerm : std::uint8_t { square, magnitude };

/// Deposits of single elements (R12: exact, one). Adjacent gradients mostly have similar exponents:
/// a thread accumulates values of the same limbs and flushes them only when the limbs change.
template <NormTerm term>
struct TermDeposits {
  NormDeposit kept{0, {0, 0, 0}};

  ZP_DEVICE void add(float g, Sum* block_sums) {
    if (g == 0.0F) return;
    const double x = static_cast<double>(g);
    const NormDeposit deposit = norm_deposit(term == NormTerm::square ? x * x : fabs(x));
    if (deposit.first != kept.first) {
      add_to_block_sums(kept, block_sums);
      kept = deposit;
      return;
    }
    ZP_UNROLL
    for (int i = 0; i < 3; ++i) kept.digits[i] += deposit.digits[i];
  }

  ZP_DEVICE void flush(Sum* block_sums) {
    add_to_block_sums(kept, block_sums);
    kept = {0, {0, 0, 0}};
  }
};

/// Every thread of the block calls this after its last deposit. sums: [norm_num_sums] of the
/// launch.
ZP_DEVICE inline void finish_block_sums(const Sum* block_sums, Sum* sums) {
  __syncthreads();
  if (threadIdx.x < norm_num_sums && block_sums[threadIdx.x] != 0) {
    atomicAdd(&sums[threadIdx.x], block_sums[threadIdx.x]);
  }
}

/// The chunk value, in lane 0. In round w only lanes below w hold valid sums: each receives from a
/// lane below 2 w, which was valid in the previous round. All 32 lanes of the warp call this.
ZP_DEVICE inline double warp_tree(double lane_sum) {
  for (int w = norm_num_lanes / 2; w > 0; w /= 2) {
    const double other = __shfl_down_sync(0xFFFFFFFFU, lane_sum, static_cast<unsigned>(w));
    lane_sum = lane_sum + other;
  }
  return lane_sum;
}

/// Adds the sums of a launch of at most 2^32 - 1 deposits to the limbs and normalises them. Limbs
/// of that many deposits are at most (2^32 - 1)^2; a normalised limb and the carry from below, both
/// at most 2^32 - 1, bring this to at most 2^64 - 1.
inline void add_norm_sums(NormSums sums, NormLimbs& limbs) {
  static_assert(std::tuple_size_v<decltype(NormLimbs::limbs)> == norm_num_limbs);
  carry_limbs(sums.data());
  for (std::size_t i = 0; i < limbs.limbs.size(); ++i) limbs.limbs[i] += sums[i];
  carry_limbs(limbs.limbs.data());
  limbs.nan_count += sums[norm_nan_count];
  limbs.inf_count += sums[norm_inf_count];
}

}  // namespace zeroproof::cuda::device
