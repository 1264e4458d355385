#include "cuda/reduce/node_view.hpp"

#include <algorithm>
#include <utility>

#include "cuda/comm/exchange/micro_batches.hpp"
#include "cuda/comm/exchange/packed_exchange.hpp"
#include "cuda/reduce/grad_window.hpp"

namespace zeroproof::cuda {
namespace {

void sort(std::vector<NodeView>& nodes) {
  std::ranges::sort(nodes, {}, [](const NodeView& one) { return one.node.first_micro_batch(); });
}

/// Combines the nodes of the instance and sends them to the owners of the same elements in the
/// other instances. Returns the nodes of all instances.
std::vector<NodeView> exchange_instances(const ReduceTools& tools, const MicroBatchIndex& numbers,
                                         const BucketPlan& plan,
                                         const std::vector<NodeView>& mine) {
  const OptimizerSetup& setup = tools.setup;
  const std::int64_t numel = plan.own.numel;
  std::int64_t total = 0;
  for (int i = 0; i < instances(setup); ++i) {
    total += next_part(message_bytes(setup, numbers.instance_nodes(i), numel));
  }
  std::byte* at = tools.memory.gathered.take(total);
  std::vector<Span<std::byte>> receive;
  std::vector<NodeView> nodes;
  for (int i = 0; i < instances(setup); ++i) {
    const std::vector<TreeNode> sent = in_message(numbers.instance_nodes(i));
    const std::int64_t bytes = message_bytes(setup, sent, numel);
    const std::vector<NodeView> here = i == instance(setup)
                                           ? pack_nodes(tools, plan.mine, numel, sent, mine, at)
                                           : nodes_at(setup, sent, numel, at);
    nodes.insert(nodes.end(), here.begin(), here.end());
    receive.push_back({at, static_cast<std::size_t>(bytes)});
    at += next_part(bytes);
  }
  tools.comm_groups.replicas->all_gather(receive[instance(setup)], receive);
  return nodes;
}

}  // namespace

DType travel_dtype(const OptimizerSetup& setup, const TreeNode& node) {
  return node.level > 0 ? DType::fp32 : shared_leaf_dtype(setup);
}

std::vector<TreeNode> in_message(std::vector<TreeNode> nodes) {
  std::ranges::stable_partition(nodes, [](const TreeNode& node) { return node.level > 0; });
  return nodes;
}

std::int64_t message_bytes(const OptimizerSetup& setup, const std::vector<TreeNode>& nodes,
                           std::int64_t numel) {
  std::int64_t bytes = 0;
  for (const TreeNode& node : nodes) bytes += numel * num_bytes(travel_dtype(setup, node));
  return bytes;
}

std::vector<NodeView> nodes_at(const OptimizerSetup& setup, const std::vector<TreeNode>& nodes,
                               std::int64_t numel, std::byte* at) {
  std::vector<NodeView> placed;
  for (const TreeNode& node : nodes) {
    const DType dtype = travel_dtype(setup, node);
    placed.push_back({node, NodeValues::packed(TensorView{at, dtype, numel})});
    at += numel * num_bytes(dtype);
  }
  return placed;
}

/// A leaf covers only itself, in the type in which it is sent.
std::vector<NodeView> pack_nodes(const ReduceTools& tools, const host::PieceLoop& loop,
                                 std::int64_t numel, const std::vector<TreeNode>& nodes,
                                 const std::vector<NodeView>& all, std::byte* to) {
  std::vector<NodeView> packed = nodes_at(tools.setup, nodes, numel, to);
  for (const NodeView& one : packed) {
    const std::vector<NodeView> parts = below(one.node, all);
    one.node.level > 0 ? add_up(tools, loop, parts, one.values)
                       : tools.put_leaf(loop, parts.front().values, one.values);
  }
  return packed;
}

std::vector<NodeView> below(const TreeNode& node, const std::vector<NodeView>& all) {
  std::vector<NodeView> found;
  for (const NodeView& one : all) {
    if (one.node.first_micro_batch() >> node.level == node.index) found.push_back(one);
  }
  sort(found);
  return found;
}

void add_up(const ReduceTools& tools, const host::PieceLoop& loop, std::vector<NodeView> nodes,
            const NodeValues& sum, const FoldEpilogue& epilogue) {
  sort(nodes);
  std::vector<TreeNode> tree;
  FoldJob job{nullptr, {}, sum};
  for (const NodeView& one : nodes) {
    tree.push_back(one.node);
    job.operands.push_back(one.values);
  }
  const host::FoldPlan fold(tree);
  job.plan = &fold;
  tools.run(loop, {&job, 1}, epilogue);
}

void add_to_sum(const ReduceTools& tools, const MicroBatchIndex& numbers, const BucketPlan& plan,
                std::vector<NodeView> nodes, const NodeValues& grad_sum,
                const FoldEpilogue& epilogue) {
  if (instances(tools.setup) > 1) nodes = exchange_instances(tools, numbers, plan, nodes);
  add_up(tools, plan.mine, std::move(nodes), grad_sum, epilogue);
}

}  // namespace zeroproof::cuda
