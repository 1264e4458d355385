#pragma once
// Context parallelism where a leaf is needed whole (R11, binned): every CP rank of a micro-batch has one part of it.

#include <optional>
#include <vector>

#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::reference {

/// The leaf over one unit, [unit numel], on every rank that has a part of it: the parts added as the tree below the
/// leaf adds them. part: nullptr on a rank without a micro-batch, which gets nothing. Collective over setup.comm, which
/// holds all CP ranks of a micro-batch.
std::optional<std::vector<float>> whole_leaf(const OptimizerSetup& setup, const FlatRange& unit,
                                             const std::vector<float>* part);

}  // namespace zeroproof::reference
