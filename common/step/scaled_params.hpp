#pragma once

#include "common/layout/tensor_blocks.hpp"
#include "common/step/distributed_optimizer.hpp"

namespace zeroproof {

/// The blocks of 8-bit parameters (R24): of the undistributed tensors, by the recipe.
///
/// Errors   those of TensorBlocks.
TensorBlocks blocks_of(const OptimizerSetup& setup);

/// The same without ranks: the layout is the undistributed one.
TensorBlocks blocks_of(const StepSettings& settings);

/// The blocks of column-wise copies with their own scales (R24): those above, rows and columns
/// exchanged.
///
/// Errors   those of TensorBlocks.
TensorBlocks column_blocks_of(const OptimizerSetup& setup);
TensorBlocks column_blocks_of(const StepSettings& settings);

/// Errors: invalid_argument unless a loaded state has no scales, or those of all blocks and under delayed their
/// histories; true in the second case.
bool has_loaded_scales(const FullState& state, const StepSettings& settings,
                       const TensorBlocks& blocks);

}  // namespace zeroproof
