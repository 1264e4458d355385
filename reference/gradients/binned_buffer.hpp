#pragma once

#include <cstdint>
#include <vector>

#include "common/contracts/binned_sum.hpp"
#include "common/layout/flat_layout.hpp"

namespace zeroproof::reference {

/// Buffer of a binned sum, initially zero.
struct BinnedBuffer {
  explicit BinnedBuffer(std::int64_t numel);

  /// Adds a gradient, or the part of one that starts at element `begin`, over the pieces (by their
  /// index in grad). Does not change elements between the pieces.
  void deposit(const std::vector<float>& grad, std::int64_t begin,
               const std::vector<Piece>& pieces);
  /// The sums over the pieces, [numel]; NaN between them.
  std::vector<float> finish(const std::vector<Piece>& pieces);
  BinnedSum view() { return {hi, lo, top}; }

  std::vector<std::int32_t> hi, lo;
  std::vector<std::uint8_t> top;
};

}  // namespace zeroproof::reference
