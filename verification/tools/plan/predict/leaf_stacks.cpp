#include "verification/tools/plan/predict/leaf_stacks.hpp"

#include <algorithm>

namespace zeroproof {
namespace {

std::int64_t data_rank(const PredictedStep& shape, int instance, int rank) {
  return std::int64_t{instance} * shape.world_size + rank;
}

/// Pushes the leaves of neighbouring ranks in turn, which is increasing order.
void push_in_turn(const std::vector<MicroBatchIndex>& ranks, NodeCount& stack) {
  for (std::int64_t i = 0; !ranks.empty() && i < ranks.front().count; ++i) {
    for (const MicroBatchIndex& leaves : ranks) {
      if (i < leaves.count) stack.push(leaves.at(i));
    }
  }
}

}  // namespace

MicroBatchIndex micro_batch_index(const PredictedStep& shape, std::int64_t data_rank) {
  const std::int64_t ranks = shape.data_ranks() / shape.cp;  // with different micro-batches
  const std::int64_t rank = data_rank / shape.cp;
  const std::int64_t m = shape.micro_batches;
  const bool strided = shape.strided();
  const std::int64_t first = strided ? rank : m * rank / ranks;
  const std::int64_t count = strided ? std::max<std::int64_t>(0, m - rank + ranks - 1) / ranks
                                     : m * (rank + 1) / ranks - first;
  return {first * shape.cp + data_rank % shape.cp, strided ? shape.data_ranks() : shape.cp, count};
}

std::vector<std::int64_t> micro_batches_of(const PredictedStep& shape, std::int64_t data_rank) {
  const MicroBatchIndex leaves = micro_batch_index(shape, data_rank);
  std::vector<std::int64_t> own;
  for (std::int64_t i = 0; i < leaves.count; ++i) own.push_back(leaves.at(i) / shape.cp);
  return own;
}

std::int64_t NodeCount::push(std::int64_t leaf) {
  std::int64_t combined = 0;
  Node top{0, leaf};
  while (!stack_.empty() && top.index % 2 == 1 && stack_.back().level == top.level &&
         stack_.back().index == top.index - 1) {
    stack_.pop_back();
    top = {top.level + 1, top.index / 2};
    ++combined;
  }
  stack_.push_back(top);
  return combined;
}

std::int64_t NodeCount::leaves() const {
  return std::ranges::count_if(stack_, [](const Node& node) { return node.level == 0; });
}

std::int64_t nodes_left(const MicroBatchIndex& leaves) {
  if (leaves.step > 1) return leaves.count;  // no two are a pair
  std::int64_t nodes = 0;
  const std::int64_t end = leaves.first + leaves.count;
  for (std::int64_t begin = leaves.first; begin < end; ++nodes) {
    std::int64_t numel = 1;
    while (begin % (2 * numel) == 0 && begin + 2 * numel <= end) numel *= 2;
    begin += numel;
  }
  return nodes;
}

std::int64_t leaves_left(const MicroBatchIndex& leaves) {
  if (leaves.step > 1 || leaves.count == 0) return leaves.count;
  return leaves.first % 2 +
         (leaves.first + leaves.count) % 2;  // whose neighbour in a pair is elsewhere
}

JoinedNodes instance_nodes(const PredictedStep& shape, int instance) {
  NodeCount stack;
  std::vector<MicroBatchIndex> turn;  // all ranks, or those of one micro-batch
  for (int rank = 0; rank < shape.world_size; ++rank) {
    const std::int64_t at = data_rank(shape, instance, rank);
    if (!shape.strided() && at % shape.cp == 0) {
      push_in_turn(turn, stack);
      turn.clear();
    }
    turn.push_back(micro_batch_index(shape, at));
  }
  push_in_turn(turn, stack);
  return {stack.size(), stack.leaves()};
}

std::int64_t most_nodes(const MicroBatchIndex& leaves) {
  if (leaves.step > 1) return leaves.count;  // no two are a pair
  NodeCount stack;
  std::int64_t most = 0;
  for (std::int64_t i = 0; i < leaves.count; ++i) {
    stack.push(leaves.at(i));
    most = std::max(most, stack.size());
  }
  return most;
}

MicroBatchIndex own_micro_batch_index(const PredictedStep& shape) {
  return micro_batch_index(shape, data_rank(shape, shape.instance, shape.rank));
}

LeafStacks::LeafStacks(const PredictedStep& shape) : shape_(shape) {
  for (int instance = 0; instance < shape.instances; ++instance) {
    joined_.push_back(instance_nodes(shape, instance));
    joined_total_.nodes += joined_.back().nodes;
    joined_total_.leaves += joined_.back().leaves;
    ++instances_by_units_[units_of(shape.node_bytes(joined_.back().nodes, joined_.back().leaves))];
  }
}

const InstanceStacks& LeafStacks::of(int instance) {
  if (instance == counted_) return stacks_;
  counted_ = instance;
  stacks_ = {};
  for (int rank = 0; rank < shape_.world_size; ++rank) {
    const MicroBatchIndex leaves = micro_batch_index(shape_, data_rank(shape_, instance, rank));
    const std::int64_t left = nodes_left(leaves);
    stacks_.leaves += leaves.count;
    stacks_.left += left;
    stacks_.holders += left > 0 ? 1 : 0;
    stacks_.left_leaves += leaves_left(leaves);
    ++stacks_.holders_by_units[units_of(shape_.node_bytes(left, leaves_left(leaves)))];
  }
  if (!shape_.keeps_leaves()) count_most(instance);
  return stacks_;
}

/// Leaves that are not kept: one stack for all ranks of the instance, or one for the ranks of each
/// micro-batch.
void LeafStacks::count_most(int instance) {
  const std::int64_t first_holder = data_rank(shape_, instance, 0) / shape_.cp;
  std::vector<MicroBatchIndex> ranks;
  for (int rank = 0; rank < shape_.world_size; ++rank) {
    ranks.push_back(micro_batch_index(shape_, data_rank(shape_, instance, rank)));
  }
  struct Stack {
    NodeCount nodes;
    std::int64_t most = 0;
  };
  std::vector<Stack> stacks(shape_.strided() ? 1 : ranks.size());
  for (std::int64_t i = 0; i < shape_.micro_steps(); ++i) {
    for (int rank = 0; rank < shape_.world_size; ++rank) {
      const MicroBatchIndex& leaves = ranks[rank];
      if (i >= leaves.count) continue;
      const std::int64_t holder = data_rank(shape_, instance, rank) / shape_.cp - first_holder;
      stacks[shape_.strided() ? 0 : holder].nodes.push(leaves.at(i));
    }
    for (Stack& stack : stacks) stack.most = std::max(stack.most, stack.nodes.size());
  }
  for (const Stack& stack : stacks) stacks_.most_nodes += stack.most;
}

}  // namespace zeroproof
