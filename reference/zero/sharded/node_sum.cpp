#include "reference/zero/sharded/node_sum.hpp"

#include <algorithm>
#include <utility>

#include "reference/zero/sharded/messages.hpp"
#include "reference/zero/sharded/micro_batches.hpp"
#include "reference/zero/sharded/ranks.hpp"

namespace zeroproof::reference {
namespace {

/// A stack with all these nodes on it.
TreeStack push_all(const OptimizerSetup& setup, const FlatRanges& owned,
                   std::vector<TreeStack::Entry> nodes) {
  std::ranges::sort(nodes, {},
                    [](const TreeStack::Entry& entry) { return entry.node.first_micro_batch(); });
  TreeStack stack(numel_of(owned), setup.layout->pieces(owned));
  for (TreeStack::Entry& entry : nodes) stack.push(entry.node, std::move(entry.values));
  return stack;
}

/// All leaves of the tree that one instance supplies, in increasing order.
std::vector<std::int64_t> leaves_of_instance(const OptimizerSetup& setup, int instance) {
  std::vector<std::int64_t> leaves;
  const int ranks = size_of(setup.comm);
  for (int rank = instance * ranks; rank < (instance + 1) * ranks; ++rank) {
    const std::vector<std::int64_t> own = tree_leaves_of(setup, rank);
    leaves.insert(leaves.end(), own.begin(), own.end());
  }
  std::ranges::sort(leaves);
  return leaves;
}

/// The remaining nodes of every instance.
std::vector<TreeStack::Entry> nodes_of_all_instances(const OptimizerSetup& setup,
                                                     std::int64_t numel, const TreeStack& mine) {
  Message message;
  for (const TreeStack::Entry& entry : mine.entries()) {
    append(message, std::as_bytes(Span<const float>(entry.values)));
  }
  const int instances = size_of(setup.replicas);
  std::vector<std::vector<TreeNode>> nodes;
  std::vector<std::int64_t> recv_bytes;
  for (int instance = 0; instance < instances; ++instance) {
    nodes.push_back(nodes_left(leaves_of_instance(setup, instance)));
    recv_bytes.push_back(static_cast<std::int64_t>(nodes.back().size()) * numel *
                         num_bytes(DType::fp32));
  }
  const std::vector<Message> recv = gather_all(*setup.replicas, message, recv_bytes);

  std::vector<TreeStack::Entry> all;
  for (std::size_t instance = 0; instance < recv.size(); ++instance) {
    Span<const std::byte> rest = recv[instance];
    for (const TreeNode& node : nodes[instance]) all.push_back({node, take_floats(rest, numel)});
  }
  return all;
}

}  // namespace

std::vector<TreeNode> nodes_left(const std::vector<std::int64_t>& leaves) {
  // Pushes leaves without elements on a stack; the nodes left are the answer.
  TreeStack stack(0, {});
  for (const std::int64_t leaf : leaves) stack.push({0, leaf}, {});
  std::vector<TreeNode> nodes;
  for (const TreeStack::Entry& entry : stack.entries()) nodes.push_back(entry.node);
  return nodes;
}

std::vector<float> sum_of_nodes(const OptimizerSetup& setup, const FlatRanges& owned,
                                std::vector<TreeStack::Entry> nodes) {
  TreeStack stack = push_all(setup, owned, std::move(nodes));
  if (size_of(setup.replicas) > 1) {
    stack = push_all(setup, owned, nodes_of_all_instances(setup, numel_of(owned), stack));
  }
  return stack.fold();
}

}  // namespace zeroproof::reference
