#pragma once
// The tables of a setup that kernels read.

#include <cstdint>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "cuda/device/step/step_memory.hpp"
#include "cuda/offload/state_split.hpp"

namespace zeroproof::cuda {

/// One of at most StepPiece::most_numel elements.
device::StepPiece step_piece(const OptimizerSetup& setup, const Piece& piece);

/// The tensors in the ranges of a rank, in parts of one block each, with the position of their
/// elements in the undistributed model.
std::vector<device::StepPiece> step_pieces(const OptimizerSetup& setup,
                                           const std::vector<FlatRange>& ranges);

/// Those whose state is in the shard; empty without a split, when this is all of them.
std::vector<device::StepPiece> resident_step_pieces(const OptimizerSetup& setup,
                                                    const StateSplit* split);

/// The memory of a step, once for every range of the shard whose state is in it: the offset of
/// state in its buffers differs from that of gradient and parameters in theirs. pieces:
/// resident_step_pieces() in device memory.
std::vector<device::StepMemory> resident_memory(const device::StepMemory& whole,
                                                const device::StepPiece* pieces,
                                                const OptimizerSetup& setup,
                                                const StateSplit& split);

/// One bit per tensor; empty if all count (R12).
std::vector<std::uint64_t> counted_bits(const OptimizerSetup& setup);

/// max_norm of every clip group, 0 for none; empty if there is one group.
std::vector<double> group_limits(const OptimizerSetup& setup);

}  // namespace zeroproof::cuda
