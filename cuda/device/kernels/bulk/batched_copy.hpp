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

/// A block of threads copies one move: longer moves should be split (MoveTable), for speed alone.
/// The target of every further piece should begin at a multiple of 16 bytes.
constexpr std::int64_t batched_copy_piece_bytes = 32768;

/// Enqueues all moves on the current stream, in no order: no move may read or write memory that
/// another one writes. Allocates nothing and may be captured. moves: [count] in device memory, of
/// any length (0 included) and alignment; count > 0.
void enqueue_batched_copy(const Move* moves, std::int64_t count);

}  // namespace zeroproof::cuda::device
