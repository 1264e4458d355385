#pragma once
// The parameter buffers of existing systems, and their distribution over ranks (internal to
// peer_layouts.cpp).

#include <cstdint>
#include <vector>

#include "common/layout/flat_layout.hpp"
#include "common/layout/peer_layouts.hpp"

namespace zeroproof {

/// Start of a tensor in a buffer.
struct PlacedTensor {
  std::int64_t tensor = 0;
  std::int64_t begin = 0;
};

/// One buffer: world_size neighbouring parts of equal size, one for every rank in order, or one part with one
/// owner.
struct PeerBuffer {
  std::int64_t id = 0;                ///< as in PeerSlice
  std::int64_t part = 0;              ///< elements of one part, padding included
  int owner = -1;                     ///< of the only part; -1: every rank has one
  std::vector<PlacedTensor> tensors;  ///< in the buffer's order, without overlap
};

/// Buffers of any kind but contract, in the system's own order.
///
/// Shapes   group_of [num_tensors] or empty, as for make_shard_map.
/// Errors   invalid_argument if the parts of all ranks do not fit 64 bits together.
std::vector<PeerBuffer> peer_buffers(LayoutKind kind, const FlatLayout& layout, int world_size,
                                     std::int64_t bucket_numel, Span<const int> group_of = {});

/// Elements of a tensor, counted from its start, in the part of a rank; begin = end if there are
/// none.
FlatRange share_of(const PeerBuffer& buffer, const PlacedTensor& placed, std::int64_t numel,
                   int rank);

}  // namespace zeroproof
