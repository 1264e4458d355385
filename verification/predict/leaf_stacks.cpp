// Which leaves ranks have (R11), and what they leave on stacks.

#include <algorithm>

#include "verification/predict/predicted_step.hpp"

namespace zeroproof {

std::vector<std::int64_t> micro_batches_of(const PredictedStep& shape, std::int64_t data_rank) {
  const std::int64_t ranks = shape.data_ranks() / shape.cp;  // that hold different micro-batches
  const std::int64_t rank = data_rank / shape.cp;
  const std::int64_t m = shape.micro_batches;
  const bool strided = shape.strided();
  const std::int64_t first = strided ? rank : m * rank / ranks;
  const std::int64_t end = strided ? m : m * (rank + 1) / ranks;
  std::vector<std::int64_t> own;
  for (std::int64_t j = first; j < end; j += strided ? ranks : 1) own.push_back(j);
  return own;
}

std::vector<std::int64_t> leaves_of(const PredictedStep& shape, std::int64_t data_rank) {
  std::vector<std::int64_t> leaves = micro_batches_of(shape, data_rank);
  for (std::int64_t& leaf : leaves) leaf = leaf * shape.cp + data_rank % shape.cp;
  return leaves;
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

StackUse stack_use(const std::vector<std::int64_t>& leaves) {
  NodeCount stack;
  StackUse use;
  for (const std::int64_t leaf : leaves) {
    use.peak = std::max(use.peak, stack.size() + 1);
    stack.push(leaf);
  }
  use.left = stack.size();
  return use;
}

std::int64_t instance_nodes(const PredictedStep& shape, int instance) {
  std::vector<std::int64_t> all;
  for (int rank = 0; rank < shape.world_size; ++rank) {
    const auto leaves = leaves_of(shape, std::int64_t{instance} * shape.world_size + rank);
    all.insert(all.end(), leaves.begin(), leaves.end());
  }
  std::sort(all.begin(), all.end());
  return stack_use(all).left;
}

}  // namespace zeroproof
