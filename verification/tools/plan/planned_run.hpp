#pragma once
// The planned run, from the view of one of its ranks.

#include <cstdint>
#include <vector>

#include "verification/tools/plan/plan.hpp"

namespace zeroproof::verification {

/// The run of a stage, from the view of its data rank 0: in every stage leaves come from a model
/// that runs layer by layer. Equal buckets are one entry of its buckets: there are at most two,
/// five for every unit in stages 2 and 3 and three more under tensor parallelism, or neighbours
/// with and without whole tensors if one rank owns a bucket alone.
PredictedStep planned_run(const PlanSettings& settings, const PlannedModel& model,
                          const FlatLayout& layout, const std::vector<FlatRange>& units, int stage);

/// Changes the run to that of another data rank, except for the rank's part of units.
void move_to(PredictedStep& run, std::int64_t data_rank);

/// Offloaded state of the run's rank, in one param group.
void set_offload(PredictedStep& run, const FlatLayout& layout, const PlanSettings& settings);

}  // namespace zeroproof::verification
