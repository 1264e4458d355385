// The canonical tree (R11).

#include <algorithm>
#include <utility>

#include "cuda/comm/exchange/micro_batches.hpp"
#include "cuda/comm/exchange/packed_exchange.hpp"
#include "cuda/reduce/grad_window.hpp"
#include "cuda/reduce/leaf_sum.hpp"
#include "cuda/reduce/node_store.hpp"
#include "cuda/reduce/node_view.hpp"

namespace zeroproof::cuda {
namespace {

class TreeSum final : public LeafSum {
 public:
  TreeSum(const ReduceTools& tools, const MicroBatchIndex& numbers, bool keeps)
      : tools_(tools),
        numbers_(numbers),
        keeps_(keeps),
        moves_(ReductionSchedule::tree(keeps ? numbers.steps_of(tools.setup.comm->rank())
                                             : numbers.arriving_steps())),
        left_(moves_.left()),
        store_(tools, moves_, keeps ? tools.setup.layout->padded_numel() : shard_numel(tools.setup),
               shared_leaf_dtype(tools.setup)) {
    std::ranges::stable_partition(
        left_, [](const ReductionSchedule::Left& left) { return !left.is_leaf; });
  }

  void begin() override {}

  void keep(const host::PieceLoop& loop, std::int64_t micro_step, const NodeValues& leaf) override {
    store_.apply_flat(loop, micro_step, {&leaf, 1});
  }

  void receive(const BucketPlan& plan, std::int64_t micro_step,
               Span<const NodeValues> leaves) override {
    store_.apply_packed(plan, micro_step, leaves);
  }

  void finish(const BucketPlan& plan, const NodeValues& grad_sum,
              const FoldEpilogue& epilogue) override {
    std::vector<NodeView> nodes = keeps_ ? exchange(plan) : held(plan);
    if (plan.own.numel == 0) return;
    add_to_sum(tools_, numbers_, plan, std::move(nodes), grad_sum, epilogue);
    for (const ReductionSchedule::Left& left : moves_.left()) {
      if (!keeps_) tools_.forget(plan.mine, store_.packed(left.source.index, plan));
    }
  }

  void end() override { store_.require_intact(); }

 private:
  static std::int64_t shard_numel(const OptimizerSetup& setup) {
    return setup.shards->shard_numel(setup.comm->rank());
  }

  std::vector<NodeView> held(const BucketPlan& plan) {
    std::vector<NodeView> nodes;
    for (const ReductionSchedule::Left& left : moves_.left()) {
      nodes.push_back({left.node, store_.left(left, plan)});
    }
    return nodes;
  }

  std::vector<NodeView> exchange(const BucketPlan& plan);

  const ReduceTools& tools_;
  const MicroBatchIndex& numbers_;
  const bool keeps_;
  const ReductionSchedule moves_;
  std::vector<ReductionSchedule::Left> left_;  ///< as in a message
  NodeStore store_;
};

/// Sends this rank's nodes to the owners of their elements. Returns all ranks' nodes of this rank's
/// part: its own in place, the others' in the receive buffer.
std::vector<NodeView> TreeSum::exchange(const BucketPlan& plan) {
  Communicator& comm = *tools_.comm_groups.comm;
  const int world = comm.world_size();
  const int rank = comm.rank();
  std::vector<Stretches> send(world);
  std::vector<std::vector<TreeNode>> sent_here(send.size());
  std::vector<std::int64_t> recv_bytes(send.size(), 0);
  for (int r = 0; r < world; ++r) {
    if (r == rank) continue;
    const auto at = static_cast<std::size_t>(r);
    const RankPart part = plan.part(r);
    for (const ReductionSchedule::Left& left : left_) {
      append(send[at], part, store_.left(left).view().data, 0,
             num_bytes(travel_dtype(tools_.setup, left.node)));
    }
    sent_here[at] = in_message(numbers_.nodes(r));
    recv_bytes[at] = message_bytes(tools_.setup, sent_here[at], plan.own.numel);
  }
  const std::vector<Span<std::byte>> arrived =
      exchange_packed(comm, send, recv_bytes, tools_.memory.out, tools_.memory.in);
  std::vector<NodeView> nodes;
  for (const ReductionSchedule::Left& left : left_) nodes.push_back({left.node, store_.left(left)});
  for (std::size_t r = 0; r < arrived.size(); ++r) {
    const std::vector<NodeView> sent =
        nodes_at(tools_.setup, sent_here[r], plan.own.numel, arrived[r].data());
    nodes.insert(nodes.end(), sent.begin(), sent.end());
  }
  return nodes;
}

}  // namespace

std::unique_ptr<LeafSum> make_tree_sum(const ReduceTools& tools, const MicroBatchIndex& numbers,
                                       bool keeps) {
  return std::make_unique<TreeSum>(tools, numbers, keeps);
}

}  // namespace zeroproof::cuda
