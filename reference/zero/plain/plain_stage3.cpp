// ZeRO stage 3 on a page: parameters are sharded as well [ZeRO:memory].
// W = 3 ranks, a model of three parts:
//
//   memory                      rank 0     rank 1     rank 2       bytes for each element
//     param (bf16)              a - -      - b -      - - c        2, on 1 rank of W
//     one layer's param, grad   while the layer computes           2 + 4, of the layer
//     sums of gradients         a - -      - b -      - - c        4 per tree node, on 1 rank of W
//     master, both moments      a - -      - b -      - - c        12, on 1 rank of W
//
//   messages, for each layer of each micro-step
//     param                     all-gather: from the owners of the layer to every rank
//     gradient                  reduce-scatter: from every rank to the owners of the layer
//   A training run visits every layer twice, forward and backward; here once for both. Nothing is
//   sent after the update: the next visit gathers the new parameters.

#include "reference/zero/plain/plain_zero.hpp"

namespace zeroproof::reference {

bool PlainStage3::step(const PlainModel& model) {
  std::vector<TreeStack> trees;  // one for every owner, of its part only
  for (const PlainShard& owner : shards_) trees.push_back(empty_tree(owner.range.numel()));

  for (std::int64_t j = 0; j < setup_.micro_batches; ++j) {  // on rank j mod W, as in stage 2
    std::vector<std::vector<float>> parts;  // of this gradient, as the owners receive them
    for (const PlainShard& owner : shards_) parts.emplace_back(owner.range.numel());

    for (const FlatRange& layer : setup_.layers) {
      std::vector<bf16> param(layer.numel());
      for (const PlainShard& owner : shards_) send(owner.param, owner.range, param, layer);

      const std::vector<float> grad = model(j, layer, param, scaler_.log2_scale);
      for (std::size_t owner = 0; owner < shards_.size(); ++owner) {
        send(grad, layer, parts[owner], shards_[owner].range);
      }
    }  // Parameters and gradient are freed before the next layer computes.

    for (std::size_t owner = 0; owner < shards_.size(); ++owner)
      trees[owner].push({0, j}, parts[owner]);
  }

  for (std::size_t owner = 0; owner < shards_.size(); ++owner)
    shards_[owner].grad = trees[owner].fold();
  return update_shards();
}

}  // namespace zeroproof::reference
