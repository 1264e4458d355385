#pragma once

#include <cstring>
#include <vector>

#include "common/layout/flat_layout.hpp"
#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::tests {

/// Copies a rank's part of an fp32 buffer to its places in the undistributed one, [padded_numel].
inline void spread(const FlatLayout& layout, const ExposedBuffer& buffer,
                   std::vector<float>& whole) {
  for (const Piece& piece : layout.pieces(buffer.ranges)) {
    std::memcpy(whole.data() + piece.global_begin,
                static_cast<const float*>(buffer.view.data) + piece.local_begin,
                static_cast<std::size_t>(piece.numel) * sizeof(float));
  }
}

}  // namespace zeroproof::tests
