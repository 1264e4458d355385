#pragma once

#include "cuda/device/kernels/gradients/norm_sums.cuh"
#include "cuda/device/kernels/update/lamb_element.cuh"

namespace zeroproof::cuda::device {

/// The two norms of a trust ratio (R6) as collected by a block, for one tensor after the other.
/// Every thread of the block calls start() and finish(); only integers leave a thread, so no order
/// matters (R10).
class TrustSums {
 public:
  /// Before the first element of a tensor.
  ZP_DEVICE void start() {
    ZP_SHARED_ARRAY(Sum, sums, num_trust_words);
    block_sums_ = sums;
    __syncthreads();  // every thread has read the sums of the tensor before
    if (threadIdx.x < num_trust_words) sums[threadIdx.x] = 0;
    __syncthreads();
  }

  ZP_DEVICE void add(float master, float u) {
    weight_.add(master, block_sums_);
    update_.add(u, block_sums_ + norm_num_sums);
  }

  /// Adds them to those of the tensor, after at most 2^32 - 1 elements. words: [num_trust_words] in
  /// device memory. Carries are propagated before, so that no limb but the last grows by more than
  /// 32 bits: the words can take 2^32 - 1 calls.
  ZP_DEVICE void finish(Sum* words) {
    weight_.flush(block_sums_);
    update_.flush(block_sums_ + norm_num_sums);
    __syncthreads();
    if (threadIdx.x == 0) {
      carry_limbs(block_sums_);
      carry_limbs(block_sums_ + norm_num_sums);
    }
    __syncthreads();
    if (threadIdx.x < num_trust_words && block_sums_[threadIdx.x] != 0)
      atomicAdd(&words[threadIdx.x], block_sums_[threadIdx.x]);
  }

 private:
  Sum* block_sums_ = nullptr;  // [num_trust_words] in shared memory
  TermDeposits<NormTerm::square> weight_{}, update_{};
};

}  // namespace zeroproof::cuda::device
