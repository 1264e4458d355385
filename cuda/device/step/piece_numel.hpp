#pragma once
// Length of the pieces of a piece table.

#include <cstdint>

#include "common/contracts/grad_norm.hpp"
#include "cuda/device/step/step_memory.hpp"

namespace zeroproof::cuda::device {

/// Pieces of one chunk that a table has at most: 5 MiB.
inline constexpr std::int64_t most_short_pieces = std::int64_t{1} << 16;

/// Largest number of elements of a piece where a launch walks `numel` of them: one chunk, so that
/// concurrent blocks work on adjacent memory and no long piece is left at the end. Where the table
/// would have more than most_short pieces, they are so long that there are half as many: lengths in
/// between are slower than these. A power of two of at least a chunk, so chunks are whole (R12). No
/// bit depends on it (R17).
inline std::int64_t step_piece_numel(std::int64_t numel,
                                     std::int64_t most_short = most_short_pieces) {
  std::int64_t length = norm_chunk_numel;
  if (numel <= most_short * length) return length;
  while (length < StepPiece::most_numel && length * most_short / 2 < numel) length *= 2;
  return length;
}

}  // namespace zeroproof::cuda::device
