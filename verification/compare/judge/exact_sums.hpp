#pragma once
// Sums of the gradients of all ranks, the reference for native sums.

#include <cstdint>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "verification/compare/judge/native_bound.hpp"
#include "verification/training/gradients/grad_cache.hpp"

namespace zeroproof::verification {

/// The sums of one step over the layout of this TP rank. Every data rank adds its own gradients, or
/// its parts of them under CP, after the parts of the TP ranks are combined (R11); then the sums of
/// all data ranks are added.
///
/// setup: coordinates and groups of the rank. own: the micro-batches of this rank; leaves: source
/// of their gradients.
/// Collective over all ranks of the case.
ExactSums exact_sums(const OptimizerSetup& setup, const std::vector<std::int64_t>& own,
                     GradProvider& leaves);

}  // namespace zeroproof::verification
