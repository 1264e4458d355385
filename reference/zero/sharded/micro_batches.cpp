#include "reference/zero/sharded/micro_batches.hpp"

#include <algorithm>

#include "reference/step_counts.hpp"
#include "reference/zero/sharded/ranks.hpp"

namespace zeroproof::reference {

bool is_strided(const OptimizerSetup& setup) {
  if (setup.order == MicroBatchOrder::by_stage) return setup.stage >= 2;
  return setup.order == MicroBatchOrder::strided;
}

std::vector<std::int64_t> micro_batches_of(const OptimizerSetup& setup, int data_rank) {
  // cp neighbours share their micro-batches, so micro-batches are assigned to groups of cp ranks.
  const std::int64_t teams = data_ranks(setup) / setup.cp;
  const std::int64_t team = data_rank / setup.cp;
  std::vector<std::int64_t> own;
  if (is_strided(setup)) {
    for (std::int64_t j = team; j < setup.micro_batches; j += teams) own.push_back(j);
  } else {
    const std::int64_t last = setup.micro_batches * (team + 1) / teams;
    for (std::int64_t j = setup.micro_batches * team / teams; j < last; ++j) own.push_back(j);
  }
  return own;
}

std::int64_t tree_leaf(const OptimizerSetup& setup, int data_rank, std::int64_t micro_batch) {
  return micro_batch * setup.cp + data_rank % setup.cp;
}

std::vector<std::int64_t> tree_leaves_of(const OptimizerSetup& setup, int data_rank) {
  std::vector<std::int64_t> leaves;
  for (const std::int64_t j : micro_batches_of(setup, data_rank)) {
    leaves.push_back(tree_leaf(setup, data_rank, j));
  }
  return leaves;
}

std::int64_t num_micro_steps(const OptimizerSetup& setup) {
  const std::int64_t teams = data_ranks(setup) / setup.cp;
  return (setup.micro_batches + teams - 1) / teams;
}

std::optional<std::int64_t> micro_batch_at(const OptimizerSetup& setup, int data_rank,
                                           std::int64_t micro_step) {
  const std::vector<std::int64_t> own = micro_batches_of(setup, data_rank);
  if (micro_step >= static_cast<std::int64_t>(own.size())) return std::nullopt;
  return own[micro_step];
}

std::int64_t divisor_of_step(const OptimizerSetup& setup, const GradSource& leaves) {
  if (setup.loss_reduction == LossReduction::mean) return setup.micro_batches;
  std::int64_t tokens = 0;
  const int rank = data_rank(setup, setup.comm->rank());
  if (rank % setup.cp == 0) {
    for (const std::int64_t j : micro_batches_of(setup, rank))
      add_tokens(tokens, j, leaves.num_tokens(j));
  }
  std::uint64_t sum = static_cast<std::uint64_t>(tokens);
  all_reduce({setup.comm, setup.replicas}, {&sum, 1}, IntegerReduce::sum);
  // A step without any token has a gradient of 0, for which every divisor but 0 is correct.
  return static_cast<std::int64_t>(std::max<std::uint64_t>(sum, 1));
}

std::vector<bool> tensors_with_grad(const OptimizerSetup& setup, const GradSource& leaves) {
  const std::size_t num_tensors = setup.layout->tensors().size();
  std::vector<std::uint64_t> mask((num_tensors + 63) /
                                  64);  // bit k % 64 of word k / 64 is tensor k
  for (const std::int64_t j : micro_batches_of(setup, data_rank(setup, setup.comm->rank()))) {
    for (std::size_t tensor = 0; tensor < num_tensors; ++tensor) {
      const std::uint64_t given = leaves.has_grad(j, static_cast<std::int64_t>(tensor)) ? 1 : 0;
      mask[tensor / 64] |= given << (tensor % 64);
    }
  }
  all_reduce({setup.comm, setup.replicas, setup.tp}, mask, IntegerReduce::bitwise_or);
  std::vector<bool> has_grad;
  for (std::size_t tensor = 0; tensor < num_tensors; ++tensor) {
    has_grad.push_back((mask[tensor / 64] >> (tensor % 64) & 1U) != 0);
  }
  return has_grad;
}

}  // namespace zeroproof::reference
