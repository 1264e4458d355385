#pragma once
// Nodes of the tree (R11) that exist at the same time, each with its address.

#include <vector>

#include "cuda/comm/exchange/bucket_plan.hpp"
#include "cuda/reduce/micro_batch_index.hpp"
#include "cuda/reduce/reduce_tools.hpp"

namespace zeroproof::cuda {

/// A node of the tree and the address of its values.
struct NodeView {
  TreeNode node;
  NodeValues values;
};

/// Form of nodes in messages: leaves, to which nothing was added, in their own type, everything
/// else in fp32. A message has its leaves last, so that fp32 starts at a multiple of 4 bytes for
/// any part of a rank.
DType travel_dtype(const OptimizerSetup& setup, const TreeNode& node);
std::vector<TreeNode> in_message(std::vector<TreeNode> nodes);
std::int64_t message_bytes(const OptimizerSetup& setup, const std::vector<TreeNode>& nodes,
                           std::int64_t numel);

/// Writes each of these nodes, in that order, from those nodes of `all` that it covers, over a loop
/// with `numel` elements. Returns them with their addresses.
std::vector<NodeView> pack_nodes(const ReduceTools& tools, const host::PieceLoop& loop,
                                 std::int64_t numel, const std::vector<TreeNode>& nodes,
                                 const std::vector<NodeView>& all, std::byte* to);

/// The same nodes of another rank, in the message that carried them.
std::vector<NodeView> nodes_at(const OptimizerSetup& setup, const std::vector<TreeNode>& nodes,
                               std::int64_t numel, std::byte* at);

/// The nodes of `all` that are covered by a node, or equal to it, in increasing order of
/// micro-batches.
std::vector<NodeView> below(const TreeNode& node, const std::vector<NodeView>& all);

/// sum = all nodes over a loop's pieces, by the tree. Nodes in any order.
void add_up(const ReduceTools& tools, const host::PieceLoop& loop, std::vector<NodeView> nodes,
            const NodeValues& sum, const FoldEpilogue& epilogue = {});

/// Writes this rank's part of a bucket of G from the nodes of its instance and those of the other
/// instances, which are exchanged here. Collective over the instances.
void add_to_sum(const ReduceTools& tools, const MicroBatchIndex& numbers, const BucketPlan& plan,
                std::vector<NodeView> nodes, const NodeValues& grad_sum,
                const FoldEpilogue& epilogue);

}  // namespace zeroproof::cuda
