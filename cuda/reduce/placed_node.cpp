#include "cuda/reduce/placed_node.hpp"

#include <algorithm>
#include <utility>

#include "cuda/exchange/micro_batches.hpp"

namespace zeroproof::cuda {
namespace {

void sort(std::vector<PlacedNode>& nodes) {
  std::ranges::sort(nodes, {}, [](const PlacedNode& one) { return one.node.first_micro_batch(); });
}

/// Combines what the instance holds and tells it to the owners of the same elements in the other instances. Returns the
/// nodes of all instances.
std::vector<PlacedNode> exchange_instances(const ReduceTools& tools, const LeafNumbers& numbers,
                                           const BucketPlan& plan, const std::vector<PlacedNode>& mine) {
  const OptimizerSetup& setup = tools.setup;
  const std::int64_t node_bytes = plan.own.numel * static_cast<std::int64_t>(sizeof(float));
  std::int64_t total = 0;
  for (int i = 0; i < instances(setup); ++i) {
    total += static_cast<std::int64_t>(numbers.instance_nodes(i).size()) * node_bytes;
  }
  std::byte* at = tools.memory.gathered.take(total);
  std::vector<Span<std::byte>> receive;
  std::vector<PlacedNode> nodes;
  for (int i = 0; i < instances(setup); ++i) {
    std::byte* const begin = at;
    for (const TreeNode& node : numbers.instance_nodes(i)) {
      nodes.push_back({node, NodeValues::packed(TensorView{at, DType::fp32, plan.own.numel})});
      at += node_bytes;
      if (i == instance(setup)) add_up(tools, plan.mine, below(node, mine), nodes.back().values);
    }
    receive.push_back({begin, static_cast<std::size_t>(at - begin)});
  }
  tools.wires.replicas->all_gather(receive[static_cast<std::size_t>(instance(setup))], receive);
  return nodes;
}

}  // namespace

std::vector<PlacedNode> below(const TreeNode& node, const std::vector<PlacedNode>& all) {
  std::vector<PlacedNode> found;
  for (const PlacedNode& one : all) {
    if (one.node.first_micro_batch() >> node.level == node.index) found.push_back(one);
  }
  sort(found);
  return found;
}

void add_up(const ReduceTools& tools, const host::PieceLoop& loop, std::vector<PlacedNode> nodes,
            const NodeValues& sum, const SeeSum& see) {
  sort(nodes);
  std::vector<TreeNode> tree;
  FoldJob job{nullptr, {}, sum};
  for (const PlacedNode& one : nodes) {
    tree.push_back(one.node);
    job.operands.push_back(one.values);
  }
  const host::FoldPlan fold(tree);
  job.plan = &fold;
  tools.run(loop, {&job, 1}, see);
}

void add_to_sum(const ReduceTools& tools, const LeafNumbers& numbers, const BucketPlan& plan,
                std::vector<PlacedNode> nodes, const NodeValues& grad_sum, const SeeSum& see) {
  if (instances(tools.setup) > 1) nodes = exchange_instances(tools, numbers, plan, nodes);
  add_up(tools, plan.mine, std::move(nodes), grad_sum, see);
}

}  // namespace zeroproof::cuda
