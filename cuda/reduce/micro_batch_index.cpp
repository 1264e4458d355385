#include "cuda/reduce/micro_batch_index.hpp"

#include <algorithm>

#include "cuda/comm/exchange/micro_batches.hpp"
#include "cuda/host/gradients/tree_stack.hpp"

namespace zeroproof::cuda {
namespace {

std::vector<std::int64_t> numbers_of(const OptimizerSetup& setup, int data_rank) {
  std::vector<std::int64_t> numbers = micro_batches_of(setup, data_rank);
  const int part = data_rank % setup.cp;
  for (std::int64_t& number : numbers) number = number * setup.cp + part;
  return numbers;
}

/// Contents of a stack after these leaves, in increasing order.
std::vector<TreeNode> nodes_left(const std::vector<std::int64_t>& numbers) {
  struct Nothing {};
  host::TreeStack<Nothing> stack([](Nothing&, Nothing&) {});
  for (const std::int64_t number : numbers) stack.push({0, number}, {});
  std::vector<TreeNode> nodes;
  for (const auto& entry : stack.entries()) nodes.push_back(entry.node);
  return nodes;
}

}  // namespace

MicroBatchIndex::MicroBatchIndex(const OptimizerSetup& setup) : setup_(setup) {
  for (int of_instance = 0; of_instance < instances(setup); ++of_instance) {
    std::vector<std::int64_t> all;
    for (int rank = 0; rank < setup.comm->world_size(); ++rank) {
      const std::vector<std::int64_t> numbers =
          numbers_of(setup, data_rank(setup, of_instance, rank));
      all.insert(all.end(), numbers.begin(), numbers.end());
      if (of_instance != instance(setup)) continue;
      nodes_.push_back(nodes_left(numbers));
      numbers_.push_back(numbers);
    }
    std::ranges::sort(all);
    instance_nodes_.push_back(nodes_left(all));
  }
}

std::int64_t MicroBatchIndex::leaf_of(int rank, std::int64_t micro_step) const {
  const std::vector<std::int64_t>& numbers = numbers_[rank];
  return micro_step >= 0 && micro_step < static_cast<std::int64_t>(numbers.size())
             ? numbers[micro_step]
             : -1;
}

std::vector<TreeNode> MicroBatchIndex::nodes_of(const std::vector<int>& ranks) const {
  std::vector<std::int64_t> all;
  for (const int rank : ranks) {
    const std::vector<std::int64_t>& numbers = numbers_[rank];
    all.insert(all.end(), numbers.begin(), numbers.end());
  }
  std::ranges::sort(all);
  return nodes_left(all);
}

ReductionSchedule::Steps MicroBatchIndex::steps_of(int rank) const {
  ReductionSchedule::Steps steps;
  for (const std::int64_t number : numbers_[rank]) steps.push_back({{0, number}});
  return steps;
}

ReductionSchedule::Steps MicroBatchIndex::arriving_steps() const {
  ReductionSchedule::Steps steps(static_cast<std::size_t>(micro_steps(setup_)));
  const bool one_stack = is_strided(setup_);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (int rank = 0; rank < setup_.comm->world_size(); ++rank) {
      const std::int64_t number = leaf_of(rank, static_cast<std::int64_t>(i));
      const int holder = data_rank(setup_, instance(setup_), rank) / setup_.cp;
      if (number >= 0) steps[i].push_back({one_stack ? 0 : holder, number});
    }
  }
  return steps;
}

}  // namespace zeroproof::cuda
