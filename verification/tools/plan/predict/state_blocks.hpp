#pragma once
// Blocks of stored state that have scales (R25), counted without the step that keeps them.

#include <cstdint>
#include <functional>
#include <vector>

#include "common/layout/flat_layout.hpp"
#include "common/layout/process_grid.hpp"

namespace zeroproof {

struct OptimizerSetup;
struct PredictedStep;

/// The tensors of a TP rank, and their places in the undistributed model; without a placement they
/// are its tensors.
struct StatePlaces {
  const FlatLayout& layout;
  const std::vector<TensorPlacement>& placement;

  /// Calls use(begin, end) for every range of the undistributed numbering that the piece covers.
  using Use = std::function<void(std::int64_t begin, std::int64_t end)>;
  void for_stretches(const Piece& piece, const Use& use) const;
};

/// Blocks in which a rank that keeps state for `ranges` has elements.
std::int64_t count_blocks(const StatePlaces& places, const std::vector<FlatRange>& ranges);

/// Adds the blocks that contain, or may contain, an end of a rank's state: only a rank with the
/// whole tensor can determine where it ends. In any order, possibly repeated.
void add_cut_blocks(const StatePlaces& places, const std::vector<FlatRange>& ranges,
                    std::vector<std::int64_t>& blocks);

/// Sets state_blocks and cut_blocks of a step whose state has scales. ranges: what the rank keeps
/// state for. Collective over the setup's tp, whose ranks may have unequal parts.
void set_state_blocks(PredictedStep& shape, const OptimizerSetup& setup,
                      const std::vector<FlatRange>& ranges);

}  // namespace zeroproof
