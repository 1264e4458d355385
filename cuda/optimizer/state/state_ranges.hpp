#pragma once
// Positions of a rank's elements in the blocks of stored state (R25), which are those of the
// undistributed tensors, for any partition.

#include <cstdint>
#include <vector>

#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::cuda {

/// Pieces split where neighbours are not adjacent in the undistributed model. In order.
std::vector<Piece> state_ranges(const OptimizerSetup& setup, const std::vector<Piece>& pieces);

/// Position of the first element of a run in the undistributed numbering; the others follow it.
std::int64_t undistributed_begin(const OptimizerSetup& setup, const Piece& run);

/// Blocks of the undistributed numbering in which runs have elements, in increasing order, neighbours together.
std::vector<FlatRange> state_blocks(const OptimizerSetup& setup, const std::vector<Piece>& runs);

/// Those of a rank with these pieces, if a buffer of its rule has scales; else none.
std::vector<FlatRange> blocks_of_state(const OptimizerSetup& setup,
                                       const std::vector<Piece>& pieces);

/// Adds the parts of a run: whole blocks, and fragments of blocks that continue elsewhere, or may
/// continue there.
void cut_at_blocks(const OptimizerSetup& setup, const Piece& run, std::vector<Piece>& whole,
                   std::vector<Piece>& fragments);

/// Blocks of which some rank of the instance has a fragment, in increasing order: the same on every
/// rank. Collective over tp, whose ranks may have parts unknown to the others.
std::vector<std::int64_t> cut_state_blocks(const OptimizerSetup& setup);

}  // namespace zeroproof::cuda
