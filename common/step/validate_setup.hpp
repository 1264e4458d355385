#pragma once
// What a setup must satisfy before either implementation takes it. Ranges of R5 and of the loss scaler are not looked
// at here: they belong to the implementations that compute with them.

#include "common/step/distributed_optimizer.hpp"

namespace zeroproof {

/// Errors: invalid_argument if the layout is missing, there is no micro-batch, a dtype holds no parameters,
/// parameters other than bf16 are to be rounded stochastically, a binned sum has more than 128 leaves, or a
/// tensor is in no group that there is.
void validate_settings(const StepSettings& settings);

/// Errors: invalid_argument, besides those of validate_settings, if stage, grad_dtype, persistent_numel or cp are out
/// of range; if layout, shard map, communicators and placement do not fit each other; if the norm is chunk1024
/// with several TP ranks or a map that cuts chunks; if a binned sum has the CP ranks of a micro-batch in several
/// instances.
void validate_setup(const OptimizerSetup& setup);

}  // namespace zeroproof
