#pragma once
// Checks that scales and histories loaded with a state are those of its masters (R24): with other
// scales codes would be decoded to wrong values, and no other check would fail.

#include <string>

#include "common/io/checkpoint/checkpoint_reader.hpp"
#include "verification/compare/judge/training_rank.hpp"

namespace zeroproof::verification {

/// Of a checkpoint whose settings are those of the experiment. Errors: damaged, if it lacks scales
/// or histories that these settings make, or has others.
void require_scales(const CheckpointReader& from, const Experiment& experiment);

/// Called after the rank has loaded that checkpoint, whose name is `label`. Recomputes the values
/// that a step derives from a tensor's masters: the scale of every block for recipes that use the
/// amax of the same step; under delayed the amax that was collected last, and a scale that its
/// history allows. The oldest slots of a history cannot be checked and are accepted. world: every
/// rank of the step. Collective. Errors: damaged, naming the tensor, on every rank.
void require_scales_of_masters(TrainingRank& rank, const std::string& label, Communicator& world);

}  // namespace zeroproof::verification
