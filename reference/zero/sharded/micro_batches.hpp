#pragma once
// The micro-batches of a rank (R11), and facts of all of them that a step needs in advance.

#include <cstdint>
#include <optional>
#include <vector>

#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::reference {

/// True if micro-batches are assigned round-robin, false if in contiguous blocks.
bool is_strided(const OptimizerSetup& setup);

/// The micro-batches that a data rank computes, in increasing order; the cp ranks of one
/// micro-batch have the same.
std::vector<std::int64_t> micro_batches_of(const OptimizerSetup& setup, int data_rank);

/// Leaf u = j * cp + c of the tree: the part of micro-batch j that a data rank supplies.
std::int64_t tree_leaf(const OptimizerSetup& setup, int data_rank, std::int64_t micro_batch);

/// All leaves of the tree that a data rank supplies, in increasing order.
std::vector<std::int64_t> tree_leaves_of(const OptimizerSetup& setup, int data_rank);

/// Micro-steps of a step: the largest number of micro-batches of any rank.
std::int64_t num_micro_steps(const OptimizerSetup& setup);

/// The micro-batch that a data rank computes in a micro-step; nullopt if it has no more.
std::optional<std::int64_t> micro_batch_at(const OptimizerSetup& setup, int data_rank,
                                           std::int64_t micro_step);

/// The divisor of the step (R5): M, or the tokens of all data ranks and at least 1. Among ranks
/// that share a micro-batch, CP rank 0 counts its tokens. Collective if it counts tokens.
std::int64_t divisor_of_step(const OptimizerSetup& setup, const GradSource& leaves);

/// [num_tensors]: true where a micro-batch of any rank gives the tensor a gradient. Collective.
std::vector<bool> tensors_with_grad(const OptimizerSetup& setup, const GradSource& leaves);

}  // namespace zeroproof::reference
