#pragma once
// The places of a TP rank's tensors in the undistributed model (R13), and their effects on a step.

#include <vector>

#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::reference {

/// True if every TP rank has the whole tensor and a part of its gradient.
bool is_tp_replicated(const OptimizerSetup& setup, std::int64_t tensor);

/// The same elements in pieces of consecutive undistributed indices, counted by global_begin: the
/// draws of stochastic rounding are those of the undistributed model (R15).
std::vector<Piece> undistributed(const OptimizerSetup& setup, const std::vector<Piece>& pieces);

}  // namespace zeroproof::reference
