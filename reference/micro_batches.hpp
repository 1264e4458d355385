#pragma once
// Which micro-batches a rank computes (R11), and what a step has to know of all of them before it begins.

#include <cstdint>
#include <vector>

#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::reference {

/// Micro-batches of one rank in the contiguous assignment: [first, last).
struct MicroBatches {
  std::int64_t first;
  std::int64_t last;
};

MicroBatches contiguous(const OptimizerSetup& setup, int rank);

/// The micro-batches this rank computes in its stage, in increasing order.
std::vector<std::int64_t> own_micro_batches(const OptimizerSetup& setup);

/// Adds a micro-batch's tokens. Errors: invalid_argument if the count is negative, or the sum is not below
/// 2^53.
void add_tokens(std::int64_t& sum, std::int64_t micro_batch, std::int64_t num_tokens);

/// The divisor of the step (R5): M, or the tokens of all ranks and at least 1. Collective if it counts
/// tokens.
std::int64_t divisor_of_step(const OptimizerSetup& setup, const LeafSource& leaves);

/// [num_tensors]: true where a micro-batch of any rank gives the tensor a gradient. Collective.
std::vector<bool> tensors_with_grad(const OptimizerSetup& setup, const LeafSource& leaves);

}  // namespace zeroproof::reference
