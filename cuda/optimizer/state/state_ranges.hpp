#pragma once
// Where a rank's elements stand in the blocks of stored state (R25), which are those of the undistributed tensors,
// whatever cut them.

#include <cstdint>
#include <vector>

#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::cuda {

/// Pieces told apart where neighbours are none in the undistributed model. In order.
std::vector<Piece> state_ranges(const OptimizerSetup& setup, const std::vector<Piece>& pieces);

/// Where the first element of a run stands in the undistributed numbering; the others follow it.
std::int64_t undistributed_begin(const OptimizerSetup& setup, const Piece& run);

/// Blocks of the undistributed numbering in which runs have elements, in increasing order, neighbours together.
std::vector<FlatRange> state_blocks(const OptimizerSetup& setup, const std::vector<Piece>& runs);

/// Those of a rank that has these pieces, if a buffer of its rule has scales; else none.
std::vector<FlatRange> blocks_of_state(const OptimizerSetup& setup,
                                       const std::vector<Piece>& pieces);

/// Adds the parts of a run: what begins and ends with blocks, and fragments of blocks that go on elsewhere, or may.
void cut_at_blocks(const OptimizerSetup& setup, const Piece& run, std::vector<Piece>& whole,
                   std::vector<Piece>& fragments);

/// Blocks that some rank of the instance has a fragment of, in increasing order: the same on every rank. Collective
/// over tp, whose ranks may have parts that one cannot tell from one's own.
std::vector<std::int64_t> cut_state_blocks(const OptimizerSetup& setup);

}  // namespace zeroproof::cuda
