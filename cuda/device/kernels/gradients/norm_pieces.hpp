#pragma once
// Exact sums allow at most 2^32 - 1 deposits between two normalisations (R12).

#include <algorithm>
#include <cstdint>

namespace zeroproof::cuda::device {

/// Elements of one launch: half of the allowed number, and a power of two, so that every piece
/// starts at a pack boundary of the whole buffer.
inline constexpr std::int64_t norm_piece_numel = std::int64_t{1} << 31;

/// Calls body(first, numel) for every piece of [0, numel) in order.
template <class Body>
void for_each_norm_piece(std::int64_t numel, std::int64_t piece_numel, const Body& body) {
  for (std::int64_t first = 0; first < numel; first += piece_numel) {
    body(first, std::min(piece_numel, numel - first));
  }
}

}  // namespace zeroproof::cuda::device
