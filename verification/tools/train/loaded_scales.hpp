#pragma once
// Whether scales and histories that came with a state are those of its masters (R24): codes would be read wrongly with
// others, and every number of the training look as if it were one.

#include <string>

#include "common/io/checkpoint/checkpoint_reader.hpp"
#include "verification/compare/judge/training_rank.hpp"

namespace zeroproof::verification {

/// Of a checkpoint whose settings are those of the experiment. Errors: damaged, if it lacks scales or histories that
/// these settings make, or has others.
void require_scales(const CheckpointReader& from, const Experiment& experiment);

/// After the rank has loaded that checkpoint, whose name is `label`. What a step has made of a tensor's masters is made
/// once more: the scale of every block by the recipes that make it of the amax of the same step; under delayed the amax
/// that was collected last, and a scale that its history allows. The oldest slots of a history are nobody else's word,
/// and are taken as they are. world: every rank of the step. Collective.
/// Errors: damaged, naming the tensor, on every rank.
void require_scales_of_masters(TrainingRank& rank, const std::string& label, Communicator& world);

}  // namespace zeroproof::verification
