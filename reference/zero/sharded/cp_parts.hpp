#pragma once
// Context parallelism with binned sums (R11, binned): every CP rank has one part of a micro-batch
// gradient, and the sum needs the whole.

#include <optional>
#include <vector>

#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::reference {

/// The gradient over one unit, [unit numel], on every rank with a part of it: the parts added as
/// the tree below the leaf adds them. part: nullptr on a rank without a micro-batch, which gets
/// nothing. Collective over setup.comm, which has all CP ranks of a micro-batch.
std::optional<std::vector<float>> whole_leaf(const OptimizerSetup& setup, const FlatRange& unit,
                                             const std::vector<float>* part);

}  // namespace zeroproof::reference
