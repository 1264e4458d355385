#pragma once
// Nodes of the tree (R11) that are there at the same time, each in its place in memory.

#include <vector>

#include "cuda/exchange/bucket_plan.hpp"
#include "cuda/reduce/leaf_numbers.hpp"
#include "cuda/reduce/reduce_tools.hpp"

namespace zeroproof::cuda {

/// A node of the tree and where its values are.
struct PlacedNode {
  TreeNode node;
  NodeValues values;
};

/// Those of `all` that lie below a node, or are it, in increasing order of micro-batches.
std::vector<PlacedNode> below(const TreeNode& node, const std::vector<PlacedNode>& all);

/// sum = all nodes over a loop's pieces, by the tree. Nodes in any order.
void add_up(const ReduceTools& tools, const host::PieceLoop& loop, std::vector<PlacedNode> nodes,
            const NodeValues& sum, const SeeSum& see = {});

/// Writes this rank's part of a bucket of G from the nodes of its instance, and from those of the other instances, with
/// whom it exchanges them. Collective over the instances.
void add_to_sum(const ReduceTools& tools, const LeafNumbers& numbers, const BucketPlan& plan,
                std::vector<PlacedNode> nodes, const NodeValues& grad_sum, const SeeSum& see);

}  // namespace zeroproof::cuda
