#pragma once
// Phase reduce with leaves added in bins (R11, binned): integers, so nobody has to ask for any order.

#include <cstdint>
#include <vector>

#include "common/contracts/binned_sum.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "reference/leaf_pass.hpp"

namespace zeroproof::reference {

/// Memory of a binned sum, all zero at first.
struct BinnedBuffer {
  explicit BinnedBuffer(std::int64_t numel);

  /// Adds a leaf, or the part of one that starts at element `begin`, over the pieces (by their index in grad); elements
  /// between the pieces are left alone.
  void deposit(const std::vector<float>& grad, std::int64_t begin, const std::vector<Piece>& pieces);
  /// The sums over the pieces, [numel]; NaN between them.
  std::vector<float> finish(const std::vector<Piece>& pieces);
  BinnedSum view() { return {hi, lo, top}; }

  std::vector<std::int32_t> hi, lo;
  std::vector<std::uint8_t> top;
};

/// Any stage: every rank adds up its own leaves at full size, the owners merge what all ranks have, and the instances
/// merge what their owners have. Returns G on this rank's shard, [shard_numel]. Collective.
std::vector<float> reduce_binned(const OptimizerSetup& setup, LeafPass& pass);

}  // namespace zeroproof::reference
