#pragma once
// Combines the data that ranks sent. Everything is enqueued on the current stream. Needs no CUDA.

#include <cstdint>

#include "common/comm/communicator.hpp"

namespace zeroproof::cuda::device {

/// Blocks of all ranks in device memory, one after another. None is empty.
template <class T>
struct GatheredBlocks {
  const T* data = nullptr;  // [ranks][numel]
  int ranks = 0;
  std::int64_t numel = 0;  ///< of one block
};

/// combined[i] = word i of all ranks, combined. Sums wrap. combined: [numel], not one of the
/// blocks.
void enqueue_combine(const GatheredBlocks<std::uint64_t>& blocks, IntegerReduce op,
                     std::uint64_t* combined);

/// sum[i] = element i of rank 0 plus that of rank 1, ..., in order. Only for native mode (R10),
/// which does not guarantee this order. sum: [numel], not one of the blocks.
void enqueue_add_ranks(const GatheredBlocks<float>& blocks, float* sum);

}  // namespace zeroproof::cuda::device
