// ZeRO stage 2 on a page: gradients are sharded as well [ZeRO:memory].
// W = 3 ranks, a model of three parts:
//
//   memory                      rank 0     rank 1     rank 2       bytes for each element
//     param (bf16)              a b c      a b c      a b c        2
//     one gradient, temporary   a b c      a b c      a b c        4
//     sums of gradients         a - -      - b -      - - c        4 per tree node, on 1 rank of W
//     master, both moments      a - -      - b -      - - c        12, on 1 rank of W
//
//   messages
//     gradient, per micro-step  reduce-scatter: a to rank 0, b to rank 1, c to rank 2
//     param, once in a step     all-gather: the new a of rank 0, b of rank 1, c of rank 2

#include "reference/zero/plain/plain_zero.hpp"

namespace zeroproof::reference {

PlainStage2::PlainStage2(const PlainSetup& setup, const FullState& initial)
    : PlainZero(setup, initial), params_(shards_.size(), std::vector<bf16>(everything_.numel())) {
  gather();
}

bool PlainStage2::step(const PlainModel& model) {
  std::vector<TreeStack> trees;  // one for every owner, of its part only
  for (const PlainShard& owner : shards_) trees.push_back(empty_tree(owner.range.numel()));

  // Micro-batches are assigned round-robin: in a micro-step W consecutive ones arrive, and the tree
  // combines them at once (R11). M need not be a multiple of W; in the last micro-step some ranks
  // have no micro-batch and send nothing.
  for (std::int64_t j = 0; j < setup_.micro_batches; ++j) {
    const std::int64_t rank = j % setup_.world_size;
    const std::vector<float> leaf = model(j, everything_, params_[rank], scaler_.log2_scale);
    for (std::size_t owner = 0; owner < shards_.size(); ++owner) {
      std::vector<float> part(shards_[owner].range.numel());
      send(leaf, everything_, part, shards_[owner].range);
      trees[owner].push({0, j}, part);
    }
  }  // The gradient is freed before the rank computes another one.

  for (std::size_t owner = 0; owner < shards_.size(); ++owner)
    shards_[owner].grad = trees[owner].fold();
  if (!update_shards()) return false;
  gather();
  return true;
}

/// All-gather: every rank gets every shard's parameters.
void PlainStage2::gather() {
  for (std::vector<bf16>& param : params_) {
    for (const PlainShard& owner : shards_) send(owner.param, owner.range, param, everything_);
  }
}

}  // namespace zeroproof::reference
