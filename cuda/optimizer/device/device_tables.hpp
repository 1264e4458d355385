#pragma once
// What kernels have to know of a setup, as the tables that they read.

#include <cstdint>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "cuda/device/step/step_memory.hpp"
#include "cuda/offload/state_split.hpp"

namespace zeroproof::cuda {

/// One of at most StepPiece::most_numel elements.
device::StepPiece step_piece(const OptimizerSetup& setup, const Piece& piece);

/// The tensors in the ranges of a rank, in parts that a block takes, and where their elements stand in the
/// undistributed
/// model.
std::vector<device::StepPiece> step_pieces(const OptimizerSetup& setup,
                                           const std::vector<FlatRange>& ranges);

/// Those whose state is in the shard; none without a split, when that is all of them.
std::vector<device::StepPiece> resident_step_pieces(const OptimizerSetup& setup,
                                                    const StateSplit* split);

/// The memory of a step, once for every stretch of the shard whose state is there: state lies at another place in its
/// buffers than gradient and parameters do in theirs. pieces: resident_step_pieces() in device memory.
std::vector<device::StepMemory> resident_memory(const device::StepMemory& whole,
                                                const device::StepPiece* pieces,
                                                const OptimizerSetup& setup,
                                                const StateSplit& split);

/// One bit per tensor; none if all count (R12).
std::vector<std::uint64_t> counted_bits(const OptimizerSetup& setup);

/// max_norm of every clip group, 0 for none; empty if there is one group.
std::vector<double> group_limits(const OptimizerSetup& setup);

}  // namespace zeroproof::cuda
