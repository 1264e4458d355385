#pragma once
// The last state of a training run as one file, named as `verify --dump` names its tensors.

#include <cstdint>

#include "verification/compare/judge/training_rank.hpp"
#include "verification/tools/train/training_job.hpp"

namespace zeroproof::verification {

/// master, the rule's state and param after `step`, in 8 bits with scales and histories, put
/// together from all ranks on rank 0, tensor by tensor in the parameters' shapes. Collective.
/// Errors: io as SafetensorsWriter, on every rank.
void write_job_dump(const JobSettings& settings, TrainingRank& rank, std::int64_t step,
                    Communicator& world);

}  // namespace zeroproof::verification
