#pragma once
// Host-side counts of every step, for any memory space: the divisor, tensors with a gradient,
// agreement of the ranks.

#include <cstddef>
#include <cstdint>

#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::cuda {

/// The divisor of the gradient sum: M, or the tokens of all micro-batches, at least 1. Collective
/// over the data ranks if it counts tokens. Errors: invalid_argument for counts outside R5.
std::int64_t step_divisor(const OptimizerSetup& setup, const GradSource& leaves);

/// Number of words with one bit for each tensor.
inline std::size_t grad_words(const OptimizerSetup& setup) {
  return (setup.layout->tensors().size() + 63) / 64;
}

/// Sets the bit of every tensor that gets a gradient from any micro-batch, lowest bits first.
/// Collective over all ranks.
/// has_grad: [grad_words].
void find_gradients(const OptimizerSetup& setup, const GradSource& leaves,
                    Span<std::uint64_t> has_grad);

/// Collective over all ranks of the step. Errors: comm, the same on every rank, if their scalars differ in a bit.
void require_same_scalars(const OptimizerSetup& setup, Span<const StepScalars> scalars);

}  // namespace zeroproof::cuda
