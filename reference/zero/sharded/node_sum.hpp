#pragma once
// The sum of an owner over the nodes it received: within its instance, then over the instances
// (R11).

#include <cstdint>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "reference/gradients/tree_stack.hpp"
#include "reference/zero/sharded/flat_ranges.hpp"

namespace zeroproof::reference {

/// The nodes left on a stack after pushing these leaves of the tree; leaves in increasing order.
/// Messages therefore contain values only.
std::vector<TreeNode> nodes_left(const std::vector<std::int64_t>& leaves);

/// G over the elements of `owned`: pushes all nodes in increasing order of their first leaf,
/// exchanges the remaining nodes with the owners in other instances, and folds. Collective over
/// setup.replicas.
///
/// Shapes   nodes: in any order, values of [numel_of(owned)]; together every leaf of this instance
///          once.
std::vector<float> sum_of_nodes(const OptimizerSetup& setup, const FlatRanges& owned,
                                std::vector<TreeStack::Entry> nodes);

}  // namespace zeroproof::reference
