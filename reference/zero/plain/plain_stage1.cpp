// ZeRO stage 1 on a page: the optimizer state is sharded [ZeRO:memory].
// W = 3 ranks, a model of three parts:
//
//   memory                      rank 0     rank 1     rank 2       bytes for each element
//     param (bf16)              a b c      a b c      a b c        2
//     sums of gradients         a b c      a b c      a b c        4 for every node of the tree
//     master, both moments      a - -      - b -      - - c        12, on 1 rank of W
//
//   messages, once in a step
//     sums of gradients         reduce-scatter: a to rank 0, b to rank 1, c to rank 2
//     param                     all-gather: the new a of rank 0, b of rank 1, c of rank 2

#include "reference/zero/plain/plain_zero.hpp"

namespace zeroproof::reference {

PlainStage1::PlainStage1(const PlainSetup& setup, const FullState& initial)
    : PlainZero(setup, initial), params_(shards_.size(), std::vector<bf16>(everything_.numel())) {
  gather();
}

bool PlainStage1::step(const PlainModel& model) {
  const std::int64_t num_ranks = setup_.world_size;

  // Every rank: a block of consecutive micro-batches, added as far as the tree allows (R11).
  std::vector<TreeStack> sums(shards_.size(), empty_tree(setup_.numel));
  for (std::int64_t rank = 0; rank < num_ranks; ++rank) {
    const std::int64_t end = setup_.micro_batches * (rank + 1) / num_ranks;
    for (std::int64_t j = setup_.micro_batches * rank / num_ranks; j < end; ++j) {
      sums[rank].push({0, j}, model(j, everything_, params_[rank], scaler_.log2_scale));
    }
  }

  // Reduce-scatter: every owner gets its part of the sums of all ranks, earlier micro-batches
  // first, and completes the tree.
  for (PlainShard& owner : shards_) {
    TreeStack tree = empty_tree(owner.range.numel());
    for (const TreeStack& sender : sums) {
      for (const TreeStack::Entry& sum : sender.entries()) {
        std::vector<float> part(owner.range.numel());
        send(sum.values, everything_, part, owner.range);
        tree.push(sum.node, part);
      }
    }
    owner.grad = tree.fold();
  }

  if (!update_shards()) return false;
  gather();
  return true;
}

/// All-gather: every rank gets every shard's parameters.
void PlainStage1::gather() {
  for (std::vector<bf16>& param : params_) {
    for (const PlainShard& owner : shards_) send(owner.param, owner.range, param, everything_);
  }
}

}  // namespace zeroproof::reference
