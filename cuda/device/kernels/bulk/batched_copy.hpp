#pragma once
// Many copies as one piece of work. Needs no CUDA.

#include <cstdint>

namespace zeroproof::cuda::device {

/// One copy; the two do not overlap.
struct Move {
  void* to = nullptr;
  const void* from = nullptr;
  std::int64_t num_bytes = 0;
};

/// Bytes of device memory that a batch of so many moves works in. count > 0.
std::int64_t batched_copy_scratch_bytes(std::int64_t count);

/// Enqueues all of them on the current stream, in no order: nothing that one of them writes may another one read or
/// write. Allocates nothing, and may be captured.
/// moves: [count] in device memory, of any lengths, zero too, at any addresses; count > 0. scratch: of
/// batched_copy_scratch_bytes(count) bytes in device memory, of this batch alone while it is under way.
void enqueue_batched_copy(const Move* moves, std::int64_t count, void* scratch);

}  // namespace zeroproof::cuda::device
