// Parts of the tree in messages between ranks. W = 3 ranks, owners of the parts a, b and c:
//
//                          rank 0          rank 1          rank 2
//   stages 0, 1   has      nodes of a b c  nodes of a b c  nodes of a b c   in the whole step
//                 sends    b to 1, c to 2  a to 0, c to 2  a to 0, b to 1   once in a step
//   stages 2, 3   has      nodes of a      nodes of b      nodes of c       and one gradient
//                 sends    b to 1, c to 2  a to 0, c to 2  a to 0, b to 1   each gradient, by unit
//
// plain_stage1.cpp and plain_stage2.cpp do the same without grids, units and layouts.

#include "reference/zero/sharded/gradient_exchange.hpp"

#include <algorithm>
#include <utility>

#include "reference/buffers.hpp"
#include "reference/gradients/tree_stack.hpp"
#include "reference/zero/sharded/messages.hpp"
#include "reference/zero/sharded/micro_batches.hpp"
#include "reference/zero/sharded/node_sum.hpp"
#include "reference/zero/sharded/ranks.hpp"

namespace zeroproof::reference {
namespace {

/// Values of the stack's nodes in one owner's shard, in increasing order.
Message message_to(const OptimizerSetup& setup, const TreeStack& stack, int owner) {
  Message message;
  for (const TreeStack::Entry& entry : stack.entries()) {
    const RangedView full{array_view(entry.values), {{0, setup.layout->padded_numel()}}};
    pack_behind(message, full, setup.shards->shard(owner));
  }
  return message;
}

/// The whole gradient of one micro-batch, [padded_numel].
std::vector<float> leaf_of(const OptimizerSetup& setup, MicroBatchPass& pass,
                           std::int64_t micro_batch) {
  std::vector<float> leaf;
  pass.run(micro_batch, [&](std::size_t unit, std::vector<float>* grad) {
    if (pass.units().size() == 1) {
      leaf = std::move(*grad);
      return;
    }
    if (leaf.empty()) leaf = nan_buffer(setup.layout->padded_numel());
    std::ranges::copy(*grad, leaf.begin() + pass.units()[unit].begin);
  });
  return leaf;
}

/// This rank's part of one unit's gradient, over the micro-steps of a step.
class OwnedUnit {
 public:
  OwnedUnit(const OptimizerSetup& setup, const FlatRange& unit)
      : setup_(setup),
        unit_(unit),
        owned_(intersect(setup.shards->shard(setup.comm->rank()), {unit})) {
    // In a strided micro-step consecutive leaves arrive one after another; leaves of contiguous
    // ranks are far apart in the tree.
    const int num_stacks = is_strided(setup) ? 1 : setup.comm->world_size();
    stacks_.assign(static_cast<std::size_t>(num_stacks),
                   TreeStack(numel_of(owned_), setup.layout->pieces(owned_)));
  }

  /// One reduction. grad: [unit numel], nullptr if this rank has no micro-batch: it then sends
  /// nothing, because zeros would turn -0 into +0 (R11).
  void exchange_leaves(std::int64_t micro_step, const std::vector<float>* grad) {
    std::vector<Message> send(setup_.comm->world_size());
    if (grad != nullptr) {
      const RangedView whole{array_view(*grad), {unit_}};
      for (std::size_t owner = 0; owner < send.size(); ++owner) {
        send[owner] =
            pack(whole, intersect(setup_.shards->shard(static_cast<int>(owner)), {unit_}));
      }
    }
    const auto leaf_from = [&](int sender) {
      return micro_batch_at(setup_, data_rank(setup_, sender), micro_step);
    };
    std::vector<std::int64_t> recv_bytes;
    for (int sender = 0; sender < setup_.comm->world_size(); ++sender) {
      recv_bytes.push_back(leaf_from(sender) ? numel_of(owned_) * num_bytes(DType::fp32) : 0);
    }
    const std::vector<Message> recv = exchange(*setup_.comm, std::move(send), recv_bytes);

    for (int sender = 0; sender < setup_.comm->world_size(); ++sender) {
      const std::optional<std::int64_t> j = leaf_from(sender);
      if (!j) continue;
      Span<const std::byte> bytes = recv[sender];
      TreeStack& stack = stacks_[is_strided(setup_) ? 0 : static_cast<std::size_t>(sender)];
      stack.push({0, tree_leaf(setup_, data_rank(setup_, sender), *j)},
                 take_floats(bytes, numel_of(owned_)));
    }
  }

  /// G over the owned elements, [numel_of(owned())].
  std::vector<float> sum() const {
    std::vector<TreeStack::Entry> nodes;
    for (const TreeStack& stack : stacks_) {
      nodes.insert(nodes.end(), stack.entries().begin(), stack.entries().end());
    }
    return sum_of_nodes(setup_, owned_, std::move(nodes));
  }

  const FlatRanges& owned() const { return owned_; }

 private:
  const OptimizerSetup& setup_;
  FlatRange unit_;
  FlatRanges owned_;
  std::vector<TreeStack> stacks_;  // one, or (contiguous) one per sender
};

}  // namespace

std::vector<float> reduce_at_boundary(const OptimizerSetup& setup, MicroBatchPass& pass) {
  const int world_size = setup.comm->world_size();
  const int rank = setup.comm->rank();
  const std::int64_t padded_numel = setup.layout->padded_numel();

  TreeStack mine(padded_numel, setup.layout->pieces({{0, padded_numel}}));
  for (const std::int64_t j : micro_batches_of(setup, data_rank(setup, rank))) {
    mine.push({0, tree_leaf(setup, data_rank(setup, rank), j)}, leaf_of(setup, pass, j));
  }

  const auto nodes_from = [&](int sender) {
    return nodes_left(tree_leaves_of(setup, data_rank(setup, sender)));
  };
  const std::int64_t owned_numel = setup.shards->shard_numel(rank);
  std::vector<Message> send;
  std::vector<std::int64_t> recv_bytes;
  for (int other = 0; other < world_size; ++other) {
    send.push_back(message_to(setup, mine, other));
    const auto num_nodes = static_cast<std::int64_t>(nodes_from(other).size());
    recv_bytes.push_back(num_nodes * owned_numel * num_bytes(DType::fp32));
  }
  const std::vector<Message> recv = exchange(*setup.comm, std::move(send), recv_bytes);

  std::vector<TreeStack::Entry> nodes;
  for (int sender = 0; sender < world_size; ++sender) {
    Span<const std::byte> rest = recv[sender];
    for (const TreeNode& node : nodes_from(sender))
      nodes.push_back({node, take_floats(rest, owned_numel)});
  }
  return sum_of_nodes(setup, setup.shards->shard(rank), std::move(nodes));
}

std::vector<float> reduce_by_micro_step(const OptimizerSetup& setup, MicroBatchPass& pass) {
  const int rank = setup.comm->rank();
  std::vector<OwnedUnit> units;
  for (const FlatRange& unit : pass.units()) units.emplace_back(setup, unit);
  for (std::int64_t micro_step = 0; micro_step < num_micro_steps(setup); ++micro_step) {
    const std::optional<std::int64_t> j = micro_batch_at(setup, data_rank(setup, rank), micro_step);
    pass.run(j, [&](std::size_t unit, const std::vector<float>* grad) {
      units[unit].exchange_leaves(micro_step, grad);
    });
  }

  std::vector<float> sum = nan_buffer(setup.shards->shard_numel(rank));
  const RangedView shard{array_view(sum), setup.shards->shard(rank)};
  for (const OwnedUnit& unit : units) {
    const std::vector<float> part = unit.sum();
    unpack(std::as_bytes(Span<const float>(part)), unit.owned(), shard);
  }
  return sum;
}

}  // namespace zeroproof::reference
