#pragma once
// What ranks sent, made into one. All is enqueued on the current stream. Needs no CUDA.

#include <cstdint>

#include "common/comm/communicator.hpp"

namespace zeroproof::cuda::device {

/// Blocks of all ranks in device memory, one behind the other. None is empty.
template <class T>
struct GatheredBlocks {
  const T* data = nullptr;  // [ranks][numel]
  int ranks = 0;
  std::int64_t numel = 0;  ///< of one block
};

/// combined[i] = word i of all ranks. Sums wrap. combined: [numel], none of the blocks.
void enqueue_combine(const GatheredBlocks<std::uint64_t>& blocks, IntegerReduce op,
                     std::uint64_t* combined);

/// sum[i] = element i of rank 0, then of rank 1, ... added to it. For native mode alone (R10), whose promise this is
/// not. sum: [numel], none of the blocks.
void enqueue_add_ranks(const GatheredBlocks<float>& blocks, float* sum);

}  // namespace zeroproof::cuda::device
