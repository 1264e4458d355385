#pragma once
// Plain version of phase reduce as a base of wrong ones: every rank gathers every gradient of the
// step and adds them.

#include <cstdint>
#include <vector>

#include "cuda/optimizer/production_optimizer.hpp"

namespace zeroproof::verification {

using Values = std::vector<float>;  // [padded_numel]

/// The micro-batch gradients of a step. Entry j * cp + c is part c of micro-batch j.
struct Leaves {
  std::vector<Values> of;                              // [leaf]
  std::vector<std::vector<std::int64_t>> rank_leaves;  // [data rank], increasing
  int own_rank = 0;                                    ///< data rank
  int shard_ranks = 1;                                 ///< data ranks of an instance
  int cp = 1;
  int log2_loss_scale = 0;

  std::int64_t count() const { return static_cast<std::int64_t>(of.size()); }
};

/// Gathers them: `grads` returns this rank's micro-batches in increasing order. with_tp: parts of
/// replicated tensors are added over the TP ranks at once. Collective over all ranks of the step.
Leaves gather_leaves(const OptimizerSetup& setup, GradSource& grads, bool with_tp);

/// Adds the TP ranks' parts of replicated tensors, as a tree over the ranks (R11).
void add_tp_parts(const OptimizerSetup& setup, Values& values);

/// a + b, elementwise.
Values added(Values a, const Values& b);

/// The canonical tree of R11 over the gradients with these indices.
Values tree(const Leaves& leaves, Span<const std::int64_t> numbers);

/// 0, 1, ..., count - 1.
std::vector<std::int64_t> numbers_to(std::int64_t count);

}  // namespace zeroproof::verification
