#pragma once

#include <vector>

#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::reference {

/// Compares this rank's step scalars with those of every rank of the step: data ranks, instances and TP ranks (R5).
/// Collective.
///
/// Errors: comm, with the same text on every rank, if any rank differs from the first one. Ranks are named by their
/// number in the group in which they differ from its rank 0.
void require_same_scalars(const OptimizerSetup& setup, const std::vector<StepScalars>& scalars);

}  // namespace zeroproof::reference
