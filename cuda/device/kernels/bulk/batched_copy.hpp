#pragma once
// Many copies as one batch. Needs no CUDA.

#include <cstdint>

namespace zeroproof::cuda::device {

/// One copy; source and target do not overlap.
struct Move {
  void* to = nullptr;
  const void* from = nullptr;
  std::int64_t num_bytes = 0;
};

/// Bytes of device scratch memory for a batch of this many moves. count > 0.
std::int64_t batched_copy_scratch_bytes(std::int64_t count);

/// Enqueues all moves on the current stream, in no order: no move may read or write memory that
/// another one writes. Allocates nothing and may be captured. moves: [count] in device memory, of
/// any length (0 included) and alignment; count > 0. scratch: batched_copy_scratch_bytes(count)
/// bytes of device memory, not shared with other work until the batch is done.
void enqueue_batched_copy(const Move* moves, std::int64_t count, void* scratch);

}  // namespace zeroproof::cuda::device
