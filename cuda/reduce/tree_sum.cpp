// The canonical tree (R11).

#include <utility>

#include "common/base/error.hpp"
#include "cuda/exchange/micro_batches.hpp"
#include "cuda/exchange/packed_exchange.hpp"
#include "cuda/reduce/leaf_sum.hpp"
#include "cuda/reduce/node_store.hpp"
#include "cuda/reduce/placed_node.hpp"

namespace zeroproof::cuda {
namespace {

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
    add_to_sum(tools_, numbers_, plan, std::move(nodes), grad_sum, see);
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

  const ReduceTools& tools_;
  const LeafNumbers& numbers_;
  const bool keeps_;
  const NodeMoves moves_;
  NodeStore store_;
};

/// This rank's nodes go to the owners of their elements. Returns all ranks' nodes of this rank's part: its own where
/// they are, the others' in the buffer they arrived in.
std::vector<PlacedNode> TreeSum::exchange(const BucketPlan& plan) {
  Communicator& comm = *tools_.wires.comm;
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

}  // namespace

std::unique_ptr<LeafSum> make_tree_sum(const ReduceTools& tools, const LeafNumbers& numbers, bool keeps) {
  return std::make_unique<TreeSum>(tools, numbers, keeps);
}

}  // namespace zeroproof::cuda
