#pragma once

#include <cstdint>

#include "common/step/distributed_optimizer.hpp"
#include "cuda/comm/memory/memory_space.hpp"

namespace zeroproof::cuda {

/// The gradient of a micro-batch from its source. Errors: invalid_argument if it does not have the
/// length of the layout, the gradient dtype, or the memory space named by the source, as far as the
/// space can check it.
TensorView checked_leaf(const OptimizerSetup& setup, const MemorySpace& space, GradSource& leaves,
                        std::int64_t micro_batch);

}  // namespace zeroproof::cuda
