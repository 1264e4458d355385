// The canonical tree (R11).

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "cuda/zero/leaf_sum.hpp"
#include "cuda/zero/micro_batches.hpp"
#include "cuda/zero/node_store.hpp"
#include "cuda/zero/packed_exchange.hpp"

namespace zeroproof::cuda {
namespace {

/// A node of the tree and where its values are.
struct PlacedNode {
  TreeNode node;
  NodeValues values;
};

std::vector<TreeNode> nodes_of(const std::vector<PlacedNode>& placed) {
  std::vector<TreeNode> nodes;
  nodes.reserve(placed.size());
  for (const PlacedNode& one : placed) nodes.push_back(one.node);
  return nodes;
}

std::vector<NodeValues> values_of(const std::vector<PlacedNode>& placed) {
  std::vector<NodeValues> values;
  values.reserve(placed.size());
  for (const PlacedNode& one : placed) values.push_back(one.values);
  return values;
}

class TreeSum final : public LeafSum {
 public:
  TreeSum(const ReduceTools& tools, const LeafNumbers& numbers, bool keeps)
      : tools_(tools),
        numbers_(numbers),
        keeps_(keeps),
        moves_(
            NodeMoves::tree(keeps ? numbers.steps_of(tools.setup.comm->rank()) : numbers.arriving_steps())),
        store_(tools, moves_, keeps ? tools.setup.layout->padded_numel() : shard_numel(tools.setup)) {}

  void begin() override {}

  void keep(const host::PieceLoop& loop, std::int64_t micro_step, const NodeValues& leaf) override {
    store_.apply_flat(loop, micro_step, {&leaf, 1});
  }

  void receive(const BucketPlan& plan, std::int64_t micro_step, Span<const NodeValues> leaves) override {
    store_.apply_packed(plan, micro_step, leaves);
  }

  void finish(const BucketPlan& plan, const NodeValues& grad_sum, const SeeSum& see) override {
    std::vector<PlacedNode> nodes = keeps_ ? exchange(plan) : held(plan);
    if (plan.own.numel == 0) return;
    if (instances(tools_.setup) > 1) nodes = exchange_instances(plan, std::move(nodes));
    std::ranges::sort(nodes, {}, [](const PlacedNode& one) { return one.node.first_micro_batch(); });
    const host::FoldPlan fold(nodes_of(nodes));
    const FoldJob job{&fold, values_of(nodes), grad_sum};
    tools_.run(plan.mine, {&job, 1}, see);
    for (const NodeMoves::Left& left : moves_.left()) {
      if (!keeps_) tools_.forget(plan.mine, store_.packed(left.source.index, plan));
    }
  }

  void end() override { store_.require_intact(); }

 private:
  static std::int64_t shard_numel(const OptimizerSetup& setup) {
    return setup.shards->shard_numel(setup.comm->rank());
  }

  std::vector<PlacedNode> held(const BucketPlan& plan) {
    std::vector<PlacedNode> nodes;
    for (const NodeMoves::Left& left : moves_.left()) {
      nodes.push_back({left.node, store_.packed(left.source.index, plan)});
    }
    return nodes;
  }

  std::vector<PlacedNode> exchange(const BucketPlan& plan);
  std::vector<PlacedNode> exchange_instances(const BucketPlan& plan, std::vector<PlacedNode> mine);

  const ReduceTools& tools_;
  const LeafNumbers& numbers_;
  const bool keeps_;
  const NodeMoves moves_;
  NodeStore store_;
};

/// This rank's nodes go to the owners of their elements. Returns all ranks' nodes of this rank's part: its own where
/// they are, the others' in the buffer they arrived in.
std::vector<PlacedNode> TreeSum::exchange(const BucketPlan& plan) {
  Communicator& comm = *tools_.setup.comm;
  const int world = comm.world_size();
  const int rank = comm.rank();
  constexpr std::int64_t width = sizeof(float);
  std::vector<Stretches> send(static_cast<std::size_t>(world));
  std::vector<std::int64_t> recv_bytes(send.size(), 0);
  for (int r = 0; r < world; ++r) {
    if (r == rank) continue;
    const auto at = static_cast<std::size_t>(r);
    const RankPart part = plan.part(r);
    for (const NodeMoves::Left& left : moves_.left()) {
      append(send[at], part, store_.flat(left.source.index).view().data, 0, width);
    }
    recv_bytes[at] = static_cast<std::int64_t>(numbers_.nodes(r).size()) * plan.own.numel * width;
  }
  const std::vector<Span<std::byte>> arrived =
      exchange_packed(comm, send, recv_bytes, tools_.memory.out, tools_.memory.in);
  std::vector<PlacedNode> nodes;
  for (const NodeMoves::Left& left : moves_.left()) {
    nodes.push_back({left.node, store_.flat(left.source.index)});
  }
  for (int r = 0; r < world; ++r) {
    if (r == rank) continue;
    std::byte* at = arrived[static_cast<std::size_t>(r)].data();
    for (const TreeNode& node : numbers_.nodes(r)) {
      nodes.push_back({node, NodeValues::packed(TensorView{at, DType::fp32, plan.own.numel})});
      at += plan.own.numel * width;
    }
  }
  return nodes;
}

/// Combines what the instance holds and tells it to the owners of the same elements in the other instances. Returns the
/// nodes of all instances.
std::vector<PlacedNode> TreeSum::exchange_instances(const BucketPlan& plan, std::vector<PlacedNode> mine) {
  const OptimizerSetup& setup = tools_.setup;
  const std::int64_t node_bytes = plan.own.numel * static_cast<std::int64_t>(sizeof(float));
  std::int64_t total = 0;
  for (int i = 0; i < instances(setup); ++i) {
    total += static_cast<std::int64_t>(numbers_.instance_nodes(i).size()) * node_bytes;
  }
  std::byte* at = tools_.memory.gathered.take(total);
  std::vector<Span<std::byte>> receive;
  std::vector<PlacedNode> nodes;
  for (int i = 0; i < instances(setup); ++i) {
    std::byte* const begin = at;
    for (const TreeNode& node : numbers_.instance_nodes(i)) {
      nodes.push_back({node, NodeValues::packed(TensorView{at, DType::fp32, plan.own.numel})});
      at += node_bytes;
      if (i != instance(setup)) continue;
      std::vector<PlacedNode> below;  // what the node is made of
      for (const PlacedNode& one : mine) {
        const std::int64_t first = one.node.first_micro_batch();
        if (first >> node.level == node.index) below.push_back(one);
      }
      std::ranges::sort(below, {}, [](const PlacedNode& one) { return one.node.first_micro_batch(); });
      const host::FoldPlan fold(nodes_of(below));
      const FoldJob job{&fold, values_of(below), nodes.back().values};
      tools_.run(plan.mine, {&job, 1});
    }
    receive.push_back({begin, static_cast<std::size_t>(at - begin)});
  }
  setup.replicas->all_gather(receive[static_cast<std::size_t>(instance(setup))], receive);
  return nodes;
}

}  // namespace

std::unique_ptr<LeafSum> make_tree_sum(const ReduceTools& tools, const LeafNumbers& numbers, bool keeps) {
  return std::make_unique<TreeSum>(tools, numbers, keeps);
}

}  // namespace zeroproof::cuda
