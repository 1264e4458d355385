#pragma once
// What kernels have to know of a setup, as the tables that they read.

#include <cstdint>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "cuda/device/step/step_memory.hpp"

namespace zeroproof::cuda {

/// The tensors in the ranges of a rank, in parts that a block takes, and where their elements stand in the
/// undistributed
/// model.
std::vector<device::StepPiece> step_pieces(const OptimizerSetup& setup, const std::vector<FlatRange>& ranges);

/// One bit per tensor; none if all count (R12).
std::vector<std::uint64_t> counted_bits(const OptimizerSetup& setup);

/// max_norm of every clip group, 0 for none; empty if there is one group.
std::vector<double> group_limits(const OptimizerSetup& setup);

}  // namespace zeroproof::cuda
