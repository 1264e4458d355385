#pragma once

#include <cstdint>

#include "common/step/distributed_optimizer.hpp"
#include "cuda/comm/memory/memory_space.hpp"

namespace zeroproof::cuda {

/// The leaf of a micro-batch from its source. Errors: invalid_argument if it is not as long as the layout, not of the
/// gradient dtype, or not where the source says that it is, as far as the space can tell.
TensorView checked_leaf(const OptimizerSetup& setup, const MemorySpace& space, GradSource& leaves,
                        std::int64_t micro_batch);

}  // namespace zeroproof::cuda
