// The canonical tree (R11) over the leaves of one bucket.

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "cuda/zero/bucket_sum.hpp"
#include "cuda/zero/micro_batches.hpp"
#include "cuda/zero/packed_exchange.hpp"

namespace zeroproof::cuda {
namespace {

class TreeSum final : public BucketSum {
 public:
  TreeSum(ReduceTools& tools, const LeafNumbers& numbers, const BucketPlan& plan, bool keeps)
      : tools_(tools), numbers_(numbers), plan_(plan), keeps_(keeps) {}

  void keep(std::int64_t number, NodeValues leaf) override {
    tools_.push_leaf(stack(0, plan_.all), number, std::move(leaf), plan_.all, [&] {
      return NodeValues::flat(tools_.node_buffer(plan_.range.numel()), plan_.range.begin);
    });
  }

  void receive(int holder, std::int64_t number, NodeValues leaf) override {
    // Strided leaves arrive in order over all senders; contiguous blocks grow side by side.
    const int key = is_strided(tools_.setup) ? 0 : holder;
    tools_.push_leaf(stack(key, plan_.mine), number, std::move(leaf), plan_.mine,
                     [&] { return NodeValues::packed(tools_.node_buffer(plan_.own.numel)); });
  }

  void finish(Span<float> grad_sum) override {
    for (auto& [key, stack] : stacks_) {
      for (const TreeStack::Entry& entry : stack.entries()) ReduceTools::require_intact(entry.values);
    }
    std::vector<TreeStack::Entry> nodes;
    if (keeps_) {
      nodes = exchange();
    } else {
      for (auto& [key, stack] : stacks_) {
        std::ranges::move(stack.entries(), std::back_inserter(nodes));
      }
    }
    if (plan_.own.numel == 0) return;
    TreeStack merged = merge(std::move(nodes));
    if (instances(tools_.setup) > 1) merged = merge(exchange_instances(merged.entries()));
    const NodeValues sum = merged.fold();
    plan_.mine.run(tools_.setup.exec, [&](const Exec&, const Piece& piece) {
      const Span<const float> from = sum.part<const float>(piece);
      std::copy(from.begin(), from.end(), grad_sum.begin() + plan_.grad_index(piece));
    });
  }

 private:
  TreeStack& stack(int key, const host::PieceLoop& loop) {
    const auto found = stacks_.find(key);
    if (found != stacks_.end()) return found->second;
    return stacks_.emplace(key, tools_.make_stack(loop)).first->second;
  }

  /// Pushes nodes from anywhere in increasing order of their first leaf.
  TreeStack merge(std::vector<TreeStack::Entry> nodes) {
    const auto first = [](const TreeStack::Entry& entry) { return entry.node.first_micro_batch(); };
    std::ranges::sort(nodes, {}, first);
    TreeStack stack = tools_.make_stack(plan_.mine);
    for (TreeStack::Entry& entry : nodes) stack.push(entry.node, std::move(entry.values));
    return stack;
  }

  std::vector<TreeStack::Entry> exchange();
  std::vector<TreeStack::Entry> exchange_instances(const std::vector<TreeStack::Entry>& mine);

  ReduceTools& tools_;
  const LeafNumbers& numbers_;
  const BucketPlan& plan_;
  const bool keeps_;
  std::map<int, TreeStack> stacks_;
};

/// This rank's nodes go to the owners of their elements. Returns all ranks' nodes of this rank's part: its own where
/// they are, the others' in the buffer they arrived in, where they are added up as well.
std::vector<TreeStack::Entry> TreeSum::exchange() {
  Communicator& comm = *tools_.setup.comm;
  const int world = comm.world_size();
  const int rank = comm.rank();
  constexpr std::int64_t width = sizeof(float);
  std::vector<TreeStack::Entry>& kept = stack(0, plan_.all).entries();
  std::vector<Stretches> send(static_cast<std::size_t>(world));
  std::vector<std::int64_t> recv_bytes(send.size(), 0);
  for (int r = 0; r < world; ++r) {
    if (r == rank) continue;
    const auto at = static_cast<std::size_t>(r);
    const RankPart part = plan_.part(r);
    for (const TreeStack::Entry& entry : kept) {
      append(send[at], part, entry.values.view().data, plan_.range.begin, width);
    }
    recv_bytes[at] = static_cast<std::int64_t>(numbers_.nodes(r).size()) * plan_.own.numel * width;
  }
  const std::vector<Span<std::byte>> arrived = exchange_packed(comm, send, recv_bytes, tools_.out, tools_.in);
  std::vector<TreeStack::Entry> nodes;
  for (int r = 0; r < world; ++r) {
    if (r == rank) {
      for (const TreeStack::Entry& entry : kept) nodes.push_back({entry.node, entry.values.borrowed()});
      continue;
    }
    std::byte* at = arrived[static_cast<std::size_t>(r)].data();
    for (const TreeNode& node : numbers_.nodes(r)) {
      nodes.push_back({node, NodeValues::packed(TensorView{at, DType::fp32, plan_.own.numel})});
      at += plan_.own.numel * width;
    }
  }
  return nodes;
}

/// Owners of the same elements tell each other the nodes they have left.
std::vector<TreeStack::Entry> TreeSum::exchange_instances(const std::vector<TreeStack::Entry>& mine) {
  const OptimizerSetup& setup = tools_.setup;
  const std::int64_t node_bytes = plan_.own.numel * static_cast<std::int64_t>(sizeof(float));
  std::int64_t total = 0;
  for (int i = 0; i < instances(setup); ++i) {
    total += static_cast<std::int64_t>(numbers_.instance_nodes(i).size()) * node_bytes;
  }
  std::byte* at = tools_.gathered.take(total);
  std::vector<Span<std::byte>> receive;
  std::vector<TreeStack::Entry> nodes;
  for (int i = 0; i < instances(setup); ++i) {
    const std::byte* begin = at;
    for (const TreeNode& node : numbers_.instance_nodes(i)) {
      nodes.push_back({node, NodeValues::packed(TensorView{at, DType::fp32, plan_.own.numel})});
      at += node_bytes;
    }
    receive.push_back({const_cast<std::byte*>(begin), static_cast<std::size_t>(at - begin)});
    if (i != instance(setup)) continue;
    ZP_CHECK(mine.size() == numbers_.instance_nodes(i).size(), ErrorCode::internal,
             "an instance has " + std::to_string(mine.size()) + " nodes left instead of " +
                 std::to_string(numbers_.instance_nodes(i).size()),
             "the other instances wait for those", "report this with the command line");
    for (std::size_t n = 0; n < mine.size(); ++n) {
      tools_.copy(plan_.mine, mine[n].values, nodes[nodes.size() - mine.size() + n].values);
    }
  }
  setup.replicas->all_gather(receive[static_cast<std::size_t>(instance(setup))], receive);
  return nodes;
}

}  // namespace

std::unique_ptr<BucketSum> make_tree_sum(ReduceTools& tools, const LeafNumbers& numbers,
                                         const BucketPlan& plan, bool keeps) {
  return std::make_unique<TreeSum>(tools, numbers, plan, keeps);
}

}  // namespace zeroproof::cuda
