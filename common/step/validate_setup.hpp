#pragma once
// Requirements of both implementations on a setup. Ranges of R5 and of the loss scaler are not
// checked here, but by the implementations.

#include "common/step/distributed_optimizer.hpp"

namespace zeroproof {

/// Errors: invalid_argument if the layout is missing, there is no micro-batch, a dtype holds no parameters,
/// parameters other than bf16 are rounded stochastically, a binned sum has more than 128 leaves, a
/// tensor is in a group that does not exist, or with the rule muon a setting is outside of R28's ranges, the matrices
/// are not given, or their parts do not cover them. layout: the undistributed one.
void validate_settings(const StepSettings& settings);

/// Errors: invalid_argument, besides those of validate_settings, if stage, grad_dtype, persistent_numel or cp are out
/// of range; if layout, shard map, communicators and placement do not fit each other; if the norm is chunk1024
/// with several TP ranks or a map that splits chunks; if a binned sum has the CP ranks of a micro-batch in several
/// instances.
void validate_setup(const OptimizerSetup& setup);

}  // namespace zeroproof
