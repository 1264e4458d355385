#pragma once
// What all ranks' leaves add up to: what a native sum is held to.

#include <cstdint>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "verification/compare/judge/native_bound.hpp"
#include "verification/training/gradients/grad_cache.hpp"

namespace zeroproof::verification {

/// The sums of one step over the layout of this TP rank. Every data rank adds its own leaves, or its parts of them
/// under CP, after the parts of the TP ranks are combined (R11); then all data ranks' sums are added.
///
/// setup: where the rank stands; its groups are used. own: the micro-batches of this rank; leaves: where they come
/// from.
/// Collective over all ranks of the case.
ExactSums exact_sums(const OptimizerSetup& setup, const std::vector<std::int64_t>& own,
                     GradProvider& leaves);

}  // namespace zeroproof::verification
